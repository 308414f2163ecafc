EXISTS (
  SELECT FROM (
    SELECT FROM {schema}.event e
    WHERE e.xid >= {base} AND e.xid < pg_snapshot_xmax(pg_current_snapshot()) AND NOT pg_visible_in_snapshot(e.xid, {since})
    ORDER BY e.xid, e.shard, e.seq LIMIT 1) e)
OR EXISTS (
  SELECT FROM pg_snapshot_xip({since}) AS x (xid)
  CROSS JOIN LATERAL (
    SELECT FROM {schema}.event e
    WHERE (e.xid, e.shard) >= (x.xid, 0::smallint) AND (e.xid, e.shard) <= (x.xid, 32767::smallint)
    ORDER BY e.xid, e.shard, e.seq LIMIT 1) e
  WHERE x.xid < {base} AND pg_visible_in_snapshot(x.xid, pg_current_snapshot()))
