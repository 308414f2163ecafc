-- Was anything committed since snapshot $1? $2 its base (as in probe.sql). And the snapshot now.
SELECT EXISTS (
  SELECT FROM (
    SELECT FROM {schema}.event e
    WHERE e.xid >= $2::xid8 AND e.xid < pg_snapshot_xmax(pg_current_snapshot())
      AND NOT pg_visible_in_snapshot(e.xid, $1::pg_snapshot)
    ORDER BY e.xid, e.shard, e.seq LIMIT 1) e)
OR EXISTS (
  SELECT FROM pg_snapshot_xip($1::pg_snapshot) AS x (xid)
  CROSS JOIN LATERAL (
    SELECT FROM {schema}.event e
    WHERE (e.xid, e.shard) >= (x.xid, 0::smallint) AND (e.xid, e.shard) <= (x.xid, 32767::smallint)
    ORDER BY e.xid, e.shard, e.seq LIMIT 1) e
  WHERE x.xid < $2::xid8 AND pg_visible_in_snapshot(x.xid, pg_current_snapshot())) AS news,
pg_current_snapshot()::text
