-- Raises the terms of leases that are ours: waits for every transaction of ours that is still under way.
-- $1 destination, $2 owner, $3 shards, $4 terms
UPDATE {schema}.lease l SET term = l.term + 1, since = clock_timestamp(), in_doubt_until = clock_timestamp()
FROM unnest($3::smallint[], $4::bigint[]) AS m (shard, term)
WHERE l.destination = $1 AND l.shard = m.shard AND l.term = m.term AND l.owner = $2
RETURNING l.shard, l.term
