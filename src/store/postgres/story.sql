-- How event ($1 shard, $2 seq) stands at each destination: when it was settled, by the first cursor row that covers it, if
-- the newest still does; and its standing, if it is undelivered.
SELECT d.name, CASE WHEN n.covers THEN s.settled_at END, u.standing
FROM (
  SELECT e.shard, e.seq, e.xid FROM {schema}.event e WHERE e.shard = $1::smallint AND e.seq = $2::bigint
  UNION ALL
  SELECT k.shard, k.seq, k.xid FROM {schema}.kept k WHERE k.shard = $1::smallint AND k.seq = $2::bigint
  LIMIT 1) e
CROSS JOIN {schema}.destination d
LEFT JOIN LATERAL (
  SELECT c.settled_at FROM {schema}.cursor c
  WHERE c.destination = d.name AND c.hi > e.xid AND e.shard = ANY (c.shards)
    AND {schema}.is_settled(e.xid, e.seq, c.settled, c.walking, c.upto)
  ORDER BY c.destination, c.hi, c.id LIMIT 1) s ON true
LEFT JOIN LATERAL (
  SELECT {schema}.is_settled(e.xid, e.seq, c.settled, c.walking, c.upto) AS covers
  FROM {schema}.cursor c WHERE c.destination BETWEEN d.name AND d.name AND e.shard = ANY (c.shards)
  ORDER BY c.destination DESC, c.id DESC LIMIT 1) n ON true
LEFT JOIN LATERAL (
  SELECT u.standing FROM {schema}.undelivered u
  WHERE u.destination = d.name AND u.shard = e.shard AND u.seq >= e.seq AND u.seq <= e.seq
  ORDER BY u.seq LIMIT 1) u ON true
ORDER BY d.name
