-- Keys that are blocked, found by skipping from one to the next in the index, with what blocks them, and how many events
-- wait (counted up to $3 and one; by a range of key, as in fetch.sql). $1 destination, or none; $2 limit
WITH RECURSIVE k (destination, shard, key, first) AS (
  (SELECT u.destination, u.shard, u.key, u.seq FROM {schema}.undelivered u
   WHERE u.blocks AND u.destination >= coalesce($1::text, '')
   ORDER BY u.destination, u.shard, u.key, u.seq LIMIT 1)
  UNION ALL
  SELECT n.* FROM k
  CROSS JOIN LATERAL (SELECT u.destination, u.shard, u.key, u.seq FROM {schema}.undelivered u
                      WHERE u.blocks AND (u.destination, u.shard, u.key) > (k.destination, k.shard, k.key)
                      ORDER BY u.destination, u.shard, u.key, u.seq LIMIT 1) n
  WHERE $1::text IS NULL OR n.destination = $1::text
)
SELECT k.destination, e.tenant, e.key, c.events, u.id, u.standing, u.error, u.since,
       CASE WHEN u.standing IN ('retrying', 'blocked', 'scheduled') THEN u.due END
FROM (SELECT * FROM k WHERE $1::text IS NULL OR k.destination = $1::text LIMIT $2::integer) k
CROSS JOIN LATERAL (SELECT u.* FROM {schema}.undelivered u
                    WHERE u.destination = k.destination AND u.shard = k.shard AND u.seq >= k.first AND u.seq <= k.first
                    ORDER BY u.seq LIMIT 1) u
LEFT JOIN LATERAL (
  SELECT e.tenant, coalesce(e.key, e.aggregate_type || '/' || e.aggregate_id) AS key FROM {schema}.event e
  WHERE e.slot = u.slot AND e.shard = u.shard AND e.seq = u.seq
  UNION ALL
  SELECT e.tenant, coalesce(e.key, e.aggregate_type || '/' || e.aggregate_id) FROM {schema}.kept e
  WHERE e.shard = u.shard AND e.seq = u.seq
  LIMIT 1) e ON true
CROSS JOIN LATERAL (
  SELECT count(*) AS events FROM (
    SELECT FROM {schema}.undelivered b
    WHERE b.destination = k.destination AND b.shard = k.shard AND b.key >= k.key AND b.key <= k.key AND b.blocks
    ORDER BY b.destination, b.shard, b.key, b.seq LIMIT $3::bigint + 1) b) c
