-- How many undelivered events each destination has of each standing, and how many blocked keys (standing: none), each
-- counted up to $1 and one; and the most attempts at one of them. The keys by skipping from one to the next in the index.
SELECT d.name, s.standing, u.events, u.attempts
FROM {schema}.destination d
CROSS JOIN unnest('{retrying,blocked,scheduled,held,expired,expired_unknown,dead,dismissed}'::text[]) AS s (standing)
CROSS JOIN LATERAL (
  SELECT count(*) AS events, max(u.attempts) AS attempts FROM (
    SELECT u.attempts FROM {schema}.undelivered u WHERE u.destination = d.name AND u.standing = s.standing
    ORDER BY u.destination, u.standing, u.seq LIMIT $1::bigint + 1) u) u
WHERE u.events > 0
UNION ALL
SELECT d.name, NULL, k.keys, NULL
FROM {schema}.destination d
CROSS JOIN LATERAL (
  WITH RECURSIVE k (shard, key) AS (
    (SELECT u.shard, u.key FROM {schema}.undelivered u WHERE u.destination = d.name AND u.blocks
     ORDER BY u.destination, u.shard, u.key LIMIT 1)
    UNION ALL
    SELECT n.* FROM k
    CROSS JOIN LATERAL (SELECT u.shard, u.key FROM {schema}.undelivered u
                        WHERE u.destination = d.name AND u.blocks AND (u.shard, u.key) > (k.shard, k.key)
                        ORDER BY u.destination, u.shard, u.key LIMIT 1) n
  )
  SELECT count(*) AS keys FROM (SELECT FROM k LIMIT $1::bigint + 1) k) k
WHERE k.keys > 0
