-- Undelivered events of keys, in the order of seq; of key 0 those that are due, the oldest first. And where they rest; if
-- they rest nowhere, their columns are null, and the last one is the event's id.
-- A range, and not "=": else the primary key has the right order, too, and is taken once a hot key fills the statistics; to
-- find an event of another key it walks through all that wait behind the hot one.
-- $1 destination; for each that is wanted $2 shard, $3 key, $4 after seq, $5 how many
SELECT e.*, u.seq, u.shard, u.key, u.standing, u.blocks, u.attempts, u.crashes, u.blamed, u.sending,
       ceil(greatest(0, 1000 * extract(epoch FROM u.due - clock_timestamp())))::bigint, u.error, u.in_doubt,
       u.ignore_expiry, u.redrives, u.payload, u.payload_bytes, u.headers, u.id
FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::integer[]) AS w (shard, key, after, most)
CROSS JOIN LATERAL (
  (SELECT u.* FROM {schema}.undelivered u
   WHERE w.key <> 0 AND u.destination = $1 AND u.shard = w.shard AND u.key >= w.key AND u.key <= w.key AND u.blocks
     AND u.seq > w.after
   ORDER BY u.destination, u.shard, u.key, u.seq LIMIT w.most)
  UNION ALL
  (SELECT u.* FROM {schema}.undelivered u
   WHERE w.key = 0 AND u.destination = $1 AND u.shard = w.shard AND u.key = 0
     AND u.standing IN ('retrying', 'blocked', 'scheduled') AND u.due <= (SELECT clock_timestamp())
   ORDER BY u.destination, u.shard, u.due LIMIT w.most)
) u
LEFT JOIN LATERAL (
  SELECT {columns} FROM {schema}.event e WHERE e.slot = u.slot AND e.shard = u.shard AND e.seq = u.seq
  UNION ALL
  SELECT {columns} FROM {schema}.kept e WHERE e.shard = u.shard AND e.seq = u.seq
  LIMIT 1) e ON true
