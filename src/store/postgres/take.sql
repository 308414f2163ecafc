-- Takes leases that are free; returns those won, with their new term. What another relay is taking or still writing
-- under is skipped, not waited for.
-- $1 owner; for each lease $2 destination, $3 shard, $4 the term it was seen with
WITH wanted AS MATERIALIZED (
  SELECT l.destination, l.shard
  FROM unnest($2::text[], $3::smallint[], $4::bigint[]) AS m (destination, shard, term)
  JOIN {schema}.lease l ON l.destination = m.destination AND l.shard = m.shard AND l.term = m.term
  WHERE l.owner IS NULL OR NOT EXISTS (
    SELECT FROM {schema}.relay r WHERE r.id = l.owner AND r.alive_until > clock_timestamp())
  FOR UPDATE OF l SKIP LOCKED
)
UPDATE {schema}.lease l SET term = l.term + 1, owner = $1, since = clock_timestamp()
FROM wanted w WHERE l.destination = w.destination AND l.shard = w.shard
RETURNING l.destination, l.shard::integer, l.term
