-- Gives leases back and tells the other relays.
-- $1 destination, $2 owner, $3 shards, $4 terms
WITH freed AS (
  UPDATE {schema}.lease l SET owner = NULL, since = clock_timestamp(), crashes = 0
  FROM unnest($3::smallint[], $4::bigint[]) AS m (shard, term)
  WHERE l.destination = $1 AND l.shard = m.shard AND l.term = m.term AND l.owner = $2
  RETURNING l.shard
)
SELECT shard, pg_notify('{schema}_leases', '') FROM freed
