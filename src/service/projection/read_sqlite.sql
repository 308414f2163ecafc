SELECT id, version, position, topic, type, payload, {payload_bytes}, metadata, schema_id, schema_version, {occurred_at},
       {recorded_at}, tenant, aggregate_type, aggregate_id
FROM {stream_event}
WHERE position > $1 AND ($3 IS NULL OR aggregate_type = $3) AND ($4 IS NULL OR tenant = $4)
ORDER BY position LIMIT $2
