-- Was anything committed since snapshot $1? $2 its base (as in probe.sql). And the snapshot now.
SELECT EXISTS (
  SELECT FROM generate_series(0, (SELECT i.shards FROM {schema}.identity i) - 1) AS lane (shard)
  CROSS JOIN LATERAL (
    SELECT FROM {schema}.event e
    WHERE e.shard = lane.shard AND e.xid >= $2::xid8 AND e.xid < pg_snapshot_xmax(pg_current_snapshot())
      AND NOT pg_visible_in_snapshot(e.xid, $1::pg_snapshot)
    ORDER BY e.xid, e.seq LIMIT 1) e)
OR EXISTS (
  SELECT FROM pg_snapshot_xip($1::pg_snapshot) AS x (xid)
  CROSS JOIN generate_series(0, (SELECT i.shards FROM {schema}.identity i) - 1) AS lane (shard)
  CROSS JOIN LATERAL (
    SELECT FROM {schema}.event e
    WHERE e.shard = lane.shard AND (e.xid, e.seq) >= (x.xid, 0) AND (e.xid, e.seq) <= (x.xid, 9223372036854775807)
    ORDER BY e.xid, e.seq LIMIT 1) e
  WHERE x.xid < $2::xid8 AND pg_visible_in_snapshot(x.xid, pg_current_snapshot())) AS news,
pg_current_snapshot()::text
