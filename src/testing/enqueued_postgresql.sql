SELECT e.id, e.tenant, e.topic, e.type, e.aggregate_type, e.aggregate_id, e.version, e.key, e.payload,
       encode(e.payload_bytes, 'hex'), e.content_type, e.metadata, e.headers, e.routing_key, e.schema_id, e.schema_version,
       (extract(epoch FROM e.occurred_at) * 1000000)::bigint, (extract(epoch FROM e.not_before) * 1000000)::bigint,
       (extract(epoch FROM e.expires_at) * 1000000)::bigint, e.attempts_max, e.dedup_key, e.seq
FROM "{schema}".event e WHERE e.seq > $1 ORDER BY e.seq
