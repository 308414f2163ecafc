SELECT version, {state}, schema_version, {taken_at} FROM {snapshot}
WHERE tenant = $1 AND aggregate_type = $2 AND aggregate_id = $3
