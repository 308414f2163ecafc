SELECT id, version, position, topic, type, payload, {payload_bytes}, metadata, schema_id, schema_version, {occurred_at},
       {recorded_at}
FROM {stream_event}
WHERE tenant = $1 AND aggregate_type = $2 AND aggregate_id = $3 AND version > $4
ORDER BY version LIMIT $5
