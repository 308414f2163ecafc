-- When each destination settled event ($1 shard, $2 seq): the first cursor row that covers it.
SELECT d.name, s.settled_at
FROM {schema}.event e
CROSS JOIN {schema}.destination d
LEFT JOIN LATERAL (
  SELECT c.settled_at FROM {schema}.cursor c
  WHERE c.destination = d.name AND c.hi > e.xid AND e.shard = ANY (c.shards)
    AND (pg_visible_in_snapshot(e.xid, c.settled)
         OR (c.walking IS NOT NULL AND e.seq <= c.upto AND pg_visible_in_snapshot(e.xid, c.walking)))
  ORDER BY c.destination, c.hi, c.id LIMIT 1) s ON true
WHERE e.shard = $1::smallint AND e.seq = $2::bigint
ORDER BY d.name
