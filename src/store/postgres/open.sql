-- The newest cursor of each shard whose lease is ours; no cursor yet: nulls. "BETWEEN" and not "=": else the order is that
-- of id alone, and for a destination that has been quiet the planner walks back through the rows of all others.
-- $1 destination, $2 owner, $3 shards, $4 terms
SELECT l.shard, c.settled::text, c.walking::text, c.upto, c.floor, c.ceiling
FROM unnest($3::smallint[], $4::bigint[]) AS m (shard, term)
JOIN {schema}.lease l ON l.destination = $1 AND l.shard = m.shard AND l.term = m.term AND l.owner = $2
LEFT JOIN LATERAL (
  SELECT * FROM {schema}.cursor c WHERE c.destination BETWEEN $1 AND $1 AND m.shard = ANY (c.shards)
  ORDER BY c.destination DESC, c.id DESC LIMIT 1) c ON true
