-- What has become visible since `settled`, at most $2 events, of which those are read that fit into a batch; with this
-- statement's own snapshot, also when there is nothing else. What has a number from the end of `settled` on was not visible
-- in it, and neither was what was open then.
-- $1 settled, $2 most, $3 stream type, $4 tenant, $5 types (null: whatever it is)
SELECT pg_current_snapshot()::text, b.*
FROM (SELECT) one LEFT JOIN (
  SELECT u.*, {room} FROM (
    (SELECT {columns} FROM "{schema}".stream_event e
     WHERE e.xid >= pg_snapshot_xmax($1::pg_snapshot) AND {wanted}
     ORDER BY e.xid, e.position LIMIT $2::bigint)
    UNION ALL
    (SELECT l.* FROM unnest(ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot))) AS x (xid)
     CROSS JOIN LATERAL (
       SELECT {columns} FROM "{schema}".stream_event e
       WHERE (e.xid, e.position) >= (x.xid, 0) AND (e.xid, e.position) <= (x.xid, 9223372036854775807) AND {wanted}
       ORDER BY e.xid, e.position LIMIT $2::bigint) l
     LIMIT $2::bigint)
  ) u
) b ON {fits}
