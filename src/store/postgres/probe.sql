-- What became visible since each lane's snapshot, at most $4 events a lane; the first row is this statement's own
-- snapshot, also when there is nothing else.
-- $1 shards, $2 snapshots, $3 bases: transactions older than a lane's base that were open at its snapshot are looked up
-- one by one if they have ended since (usually none); all younger ones are found in one walk from the base. "xid = x"
-- would make the order that of seq alone, and the planner walk the whole shard by it: hence the pairs.
SELECT {null_columns}, pg_current_snapshot()::text AS snapshot
UNION ALL
SELECT e.*, NULL
FROM unnest($1::smallint[], $2::pg_snapshot[], $3::xid8[]) AS lane (shard, settled, base)
CROSS JOIN LATERAL (
  (SELECT {columns} FROM {schema}.event e
   WHERE e.shard = lane.shard AND e.xid >= lane.base AND e.xid < pg_snapshot_xmax(pg_current_snapshot())
     AND NOT pg_visible_in_snapshot(e.xid, lane.settled)
   ORDER BY e.xid, e.seq LIMIT $4)
  UNION ALL
  (SELECT late.* FROM pg_snapshot_xip(lane.settled) AS x (xid)
   CROSS JOIN LATERAL (
     SELECT {columns} FROM {schema}.event e
     WHERE e.shard = lane.shard AND (e.xid, e.seq) >= (x.xid, 0) AND (e.xid, e.seq) <= (x.xid, 9223372036854775807)
     ORDER BY e.xid, e.seq LIMIT $4) late
   WHERE x.xid < lane.base AND pg_visible_in_snapshot(x.xid, pg_current_snapshot())
   LIMIT $4)
) e
