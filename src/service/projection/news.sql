-- Is there anything to be done? Also once a minute when nothing has happened, so that little is passed over again each
-- time. The order leaves the planner one index. No row: it is not made yet. $1 name
SELECT p.walking IS NOT NULL OR p.changed_at < clock_timestamp() - interval '1 minute'
       OR (SELECT true FROM "{schema}".stream_event e WHERE e.xid >= pg_snapshot_xmax(p.settled)
           ORDER BY e.xid, e.position LIMIT 1) IS NOT NULL
       OR EXISTS (SELECT FROM unnest(ARRAY(SELECT pg_snapshot_xip(p.settled))) AS x (xid)
                  CROSS JOIN LATERAL (
                    SELECT FROM "{schema}".stream_event e
                    WHERE (e.xid, e.position) >= (x.xid, 0) AND (e.xid, e.position) <= (x.xid, 9223372036854775807)
                    ORDER BY e.xid, e.position LIMIT 1) l)
FROM "{schema}".projection p WHERE p.name = $1 AND NOT p.shadow
