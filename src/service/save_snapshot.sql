INSERT INTO {snapshot} AS s (tenant, aggregate_type, aggregate_id, version, state, schema_version)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant, aggregate_type, aggregate_id) DO UPDATE
SET version = excluded.version, state = excluded.state, schema_version = excluded.schema_version,
    taken_at = excluded.taken_at
WHERE excluded.version >= s.version
