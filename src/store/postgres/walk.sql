-- The next events of each lane's window, in the order of their seq, at most $8 a lane.
-- $1 shards, $2 settled, $3 walking (the window's two snapshots), $4 bases: transactions older than it that were open at `settled` are looked up one by one, $5 last seq seen,
-- $6 floor, $7 ceiling (all of the window lies between them, but for what old transactions wrote).
SELECT e.*
FROM unnest($1::smallint[], $2::pg_snapshot[], $3::pg_snapshot[], $4::xid8[], $5::bigint[], $6::bigint[], $7::bigint[])
     AS lane (shard, settled, walking, base, last, floor, ceiling)
CROSS JOIN LATERAL (
  SELECT ARRAY(SELECT x FROM pg_snapshot_xip(lane.settled) x
               WHERE x < lane.base AND pg_visible_in_snapshot(x, lane.walking)) AS xids) late
CROSS JOIN LATERAL (
  SELECT u.* FROM (
    (SELECT l.* FROM unnest(late.xids) AS x (xid)
     CROSS JOIN LATERAL (
       SELECT {columns} FROM {schema}.event e
       WHERE (e.xid, e.shard, e.seq) > (x.xid, lane.shard, lane.last)
         AND (e.xid, e.shard, e.seq) <= (x.xid, lane.shard, 9223372036854775807)
       ORDER BY e.xid, e.shard, e.seq LIMIT $8) l
     ORDER BY l.seq LIMIT $8)
    UNION ALL
    (SELECT {columns} FROM {schema}.event e
     WHERE e.shard = lane.shard AND e.seq > greatest(lane.last, lane.floor) AND e.seq <= lane.ceiling
       AND NOT pg_visible_in_snapshot(e.xid, lane.settled) AND pg_visible_in_snapshot(e.xid, lane.walking)
       AND e.xid <> ALL (late.xids)
     ORDER BY e.seq LIMIT $8)
  ) u ORDER BY u.seq LIMIT $8
) e
