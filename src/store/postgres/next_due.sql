-- Milliseconds until the next undelivered event without a key may be tried, of those that may not be now.
-- $1 destination, $2 shards
SELECT w.shard, ceil(greatest(0, 1000 * extract(epoch FROM u.due - clock_timestamp())))::bigint
FROM unnest($2::smallint[]) AS w (shard)
CROSS JOIN LATERAL (
  SELECT u.due FROM {schema}.undelivered u
  WHERE u.destination = $1 AND u.shard = w.shard AND u.key = 0 AND u.standing IN ('retrying', 'blocked', 'scheduled')
    AND u.due > (SELECT clock_timestamp())
  ORDER BY u.destination, u.shard, u.due LIMIT 1) u
