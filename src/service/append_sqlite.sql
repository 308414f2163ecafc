-- PostgreSQL has a function for it, in the store's migrations: try_append().
INSERT INTO {stream_event} (tenant, aggregate_type, aggregate_id, version, id, topic, type, payload, payload_bytes, metadata,
  schema_id, schema_version, occurred_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, coalesce($13, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')))
