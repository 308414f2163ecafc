-- The newest events that match, looked for in each shard. $1 before seq, $2 topic, $3 type, $4 tenant, $5 aggregate type,
-- $6 aggregate id, $7 key (each a LIKE pattern), $8 since, $9 until, $10 limit, $11 after seq
SELECT e.*
FROM generate_series(0, (SELECT i.shards FROM {schema}.identity i) - 1) AS lane (shard)
CROSS JOIN LATERAL (
  SELECT {columns} FROM {schema}.event e
  WHERE e.shard = lane.shard AND e.seq < $1::bigint AND e.seq > $11::bigint
    AND ($2::text IS NULL OR e.topic LIKE $2::text)
    AND ($3::text IS NULL OR coalesce(e.type, e.topic) LIKE $3::text)
    AND ($4::text IS NULL OR e.tenant LIKE $4::text)
    AND ($5::text IS NULL OR e.aggregate_type LIKE $5::text)
    AND ($6::text IS NULL OR e.aggregate_id LIKE $6::text)
    AND ($7::text IS NULL OR coalesce(e.key, e.aggregate_type || '/' || e.aggregate_id) LIKE $7::text)
    AND ($8::timestamptz IS NULL OR e.created_at >= $8::timestamptz)
    AND ($9::timestamptz IS NULL OR e.created_at < $9::timestamptz)
  ORDER BY e.seq DESC LIMIT $10::integer
) e
ORDER BY e.seq DESC LIMIT $10::integer
