-- The next events of a window that is too large for one batch, in the order of their positions, as many as fit into one.
-- $1 settled, $2 most, $3 stream type, $4 tenant, $5 types, $6 walking, $7 upto, $8 floor, $9 ceiling
SELECT NULL, b.* FROM (
  SELECT u.*, {room} FROM (
    SELECT a.* FROM (
      (SELECT l.* FROM unnest(ARRAY(SELECT x FROM pg_snapshot_xip($1::pg_snapshot) x
                                    WHERE pg_visible_in_snapshot(x, $6::pg_snapshot))) AS x (xid)
       CROSS JOIN LATERAL (
         SELECT {columns} FROM "{schema}".stream_event e
         WHERE (e.xid, e.position) > (x.xid, $7::bigint) AND (e.xid, e.position) <= (x.xid, 9223372036854775807)
           AND {wanted}
         ORDER BY e.xid, e.position LIMIT $2::bigint) l
       ORDER BY l.position LIMIT $2::bigint)
      UNION ALL
      (SELECT {columns} FROM "{schema}".stream_event e
       WHERE e.position > greatest($7::bigint, $8::bigint) AND e.position <= $9::bigint
         AND NOT pg_visible_in_snapshot(e.xid, $1::pg_snapshot) AND pg_visible_in_snapshot(e.xid, $6::pg_snapshot)
         AND e.xid <> ALL (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot))) AND {wanted}
       ORDER BY e.position LIMIT $2::bigint)
    ) a ORDER BY a.position LIMIT $2::bigint
  ) u
) b WHERE {fits}
