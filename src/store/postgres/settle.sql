-- Saves progress for the shards whose lease is still ours; returns those, and what time it is. The lock is the fence: it is held until the
-- commit, and a take-over waits for it; shards are locked in their order, as whoever locks several of them does.
-- $1 destination, $2 owner; for each shard $3 shard, $4 term, $5 number of its row below (from 1; 0: its cursor stays);
-- for each row $6 settled, $7 walking, $8 upto, $9 floor, $10 ceiling, $11 count; $12 rules of all of them
WITH mine AS MATERIALIZED (
  SELECT l.shard, m.row
  FROM (SELECT * FROM unnest($3::smallint[], $4::bigint[], $5::integer[]) AS m (shard, term, row) ORDER BY m.shard) m
  JOIN {schema}.lease l ON l.destination = $1 AND l.shard = m.shard AND l.term = m.term AND l.owner = $2
  FOR KEY SHARE OF l
), saved AS (
  INSERT INTO {schema}.cursor (destination, shards, settled, walking, upto, floor, ceiling, hi, count, rules)
  SELECT $1, s.shards, r.settled, r.walking, r.upto, r.floor, r.ceiling,
         pg_snapshot_xmax(coalesce(r.walking, r.settled)), r.count, $12::integer
  FROM unnest($6::pg_snapshot[], $7::pg_snapshot[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[])
       WITH ORDINALITY AS r (settled, walking, upto, floor, ceiling, count, row)
  CROSS JOIN LATERAL (SELECT array_agg(mine.shard ORDER BY mine.shard) AS shards FROM mine WHERE mine.row = r.row) s
  WHERE s.shards IS NOT NULL
)
SELECT shard, clock_timestamp() FROM mine
