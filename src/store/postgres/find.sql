-- The event with id $1, among those with a seq from $2 to $3, looked for in each shard.
SELECT e.*
FROM generate_series(0, (SELECT i.shards FROM {schema}.identity i) - 1) AS lane (shard)
CROSS JOIN LATERAL (
  SELECT {columns} FROM {schema}.event e
  WHERE e.shard = lane.shard AND e.seq BETWEEN $2::bigint AND $3::bigint AND e.id = $1::uuid
  ORDER BY e.seq LIMIT 1
) e
LIMIT 1
