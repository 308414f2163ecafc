  -- $5, for each group: the transactions older than its base that were open at the snapshot of one of its lanes. They are
  -- looked up one by one if they have ended since. "xid = x" would make the order that of the other index, and the
  -- planner walk the whole log by it: hence the pairs.
  UNION ALL
  (SELECT late.* FROM unnest(lanes.late::xid8[]) AS x (xid)
   CROSS JOIN LATERAL (
     SELECT {columns} FROM {schema}.event e
     WHERE (e.xid, e.shard) >= (x.xid, 0::smallint) AND (e.xid, e.shard) <= (x.xid, 32767::smallint)
       AND ($2::smallint[])[e.shard + 1] = lanes.number
       AND NOT pg_visible_in_snapshot(e.xid, ($3::pg_snapshot[])[e.shard + 1])
     ORDER BY e.xid, e.shard, e.seq LIMIT $4::integer) late
   WHERE pg_visible_in_snapshot(x.xid, pg_current_snapshot())
   LIMIT $4::integer)
