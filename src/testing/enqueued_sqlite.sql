SELECT e.id, e.tenant, e.topic, e.type, e.aggregate_type, e.aggregate_id, e.version, e.key, e.payload,
       hex(e.payload_bytes), e.content_type, e.metadata, e.headers, e.routing_key, e.schema_id, e.schema_version,
       strftime('%s', e.occurred_at) * 1000000 + substr(replace(substr(e.occurred_at, 21), 'Z', '') || '000000', 1, 6),
       strftime('%s', e.not_before) * 1000000 + substr(replace(substr(e.not_before, 21), 'Z', '') || '000000', 1, 6),
       strftime('%s', e.expires_at) * 1000000 + substr(replace(substr(e.expires_at, 21), 'Z', '') || '000000', 1, 6),
       e.attempts_max, e.dedup_key, e.seq
FROM waybill_event e WHERE e.seq > $1 ORDER BY e.seq
