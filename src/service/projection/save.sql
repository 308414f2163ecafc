UPDATE "{schema}".projection
SET settled = $3::pg_snapshot, walking = $4::pg_snapshot, upto = $5, floor = $6, ceiling = $7, handled = handled + $8,
    changed_at = clock_timestamp()
WHERE name = $1 AND shadow = $2::boolean
