SELECT b.* FROM (
  SELECT u.*, {room} FROM (
    SELECT id, version, position, topic, type, payload, {payload_bytes}, metadata, schema_id, schema_version, {occurred_at},
           {recorded_at}, tenant, aggregate_type, aggregate_id,
           coalesce(length(CAST(payload AS BLOB)), 2 * length(payload_bytes), 0)
             + coalesce(length(CAST(metadata AS BLOB)), 0) AS bytes
    FROM {stream_event}
    WHERE position > $1 AND ($3 IS NULL OR aggregate_type = $3) AND ($4 IS NULL OR tenant = $4)
    ORDER BY position LIMIT $2
  ) u
) b WHERE {fits} ORDER BY b.position
