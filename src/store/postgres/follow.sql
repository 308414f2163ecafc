-- Can a reader go on from his place here? The present history; has this log all that was read before the place; has it all
-- that follows? What was cleaned has an xid and a seq up to those in `cleaned`: it must lie before the place. What was open
-- at the place and has ended since may be among it.
-- $1 history of the place, $2 end of its last snapshot, $3 settled, $4 walking (or settled), $5 last seq
SELECT i.history, coalesce($2::xid8 <= h.followed AND $2::xid8 <= pg_snapshot_xmax(pg_current_snapshot()), false),
       c.xid IS NULL OR (
         (c.seq <= $5::bigint OR c.xid < pg_snapshot_xmax($3::pg_snapshot))
         AND c.xid < pg_snapshot_xmax($4::pg_snapshot)
         AND NOT EXISTS (
           SELECT FROM pg_snapshot_xip(CASE WHEN c.seq <= $5::bigint THEN $4::pg_snapshot ELSE $3::pg_snapshot END) AS x (xid)
           WHERE x.xid <= c.xid AND x.xid NOT IN (SELECT pg_snapshot_xip(pg_current_snapshot()))))
FROM {schema}.identity i
LEFT JOIN {schema}.history h ON h.id = $1
LEFT JOIN {schema}.cleaned c ON true
