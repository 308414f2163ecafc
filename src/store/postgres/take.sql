-- Takes leases that are free; returns those won, with their new term. What another relay is taking or still writing
-- under is skipped, not waited for. An owner that has gone without giving the lease back, and without having moved the
-- cursor since it took it, counts as a crash. (What it has settled in the last instant may be overlooked here; that is
-- one crash too many, until the next take-over.)
-- $1 owner; for each lease $2 destination, $3 shard, $4 the term it was seen with
WITH wanted AS MATERIALIZED (
  SELECT l.destination, l.shard
  FROM unnest($2::text[], $3::smallint[], $4::bigint[]) AS m (destination, shard, term)
  JOIN {schema}.lease l ON l.destination = m.destination AND l.shard = m.shard AND l.term = m.term
  WHERE l.owner IS NULL OR NOT EXISTS (
    SELECT FROM {schema}.relay r WHERE r.id = l.owner AND r.alive_until > clock_timestamp())
  FOR UPDATE OF l SKIP LOCKED
)
UPDATE {schema}.lease l
SET term = l.term + 1, owner = $1, since = clock_timestamp(), cursor = c.id,
    in_doubt_until = CASE WHEN l.owner IS NULL THEN l.in_doubt_until ELSE clock_timestamp() END,
    crashes = CASE WHEN l.owner IS NOT NULL AND (c.id IS NOT DISTINCT FROM l.cursor OR (l.cursor IS NULL AND c.count = 0))
                   THEN l.crashes + 1 ELSE 0 END
FROM wanted w
LEFT JOIN LATERAL (
  SELECT c.id, c.count FROM {schema}.cursor c
  WHERE c.destination BETWEEN w.destination AND w.destination AND w.shard = ANY (c.shards)
  ORDER BY c.destination DESC, c.id DESC LIMIT 1) c ON true
WHERE l.destination = w.destination AND l.shard = w.shard
RETURNING l.destination, l.shard::integer, l.term
