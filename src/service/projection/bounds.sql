-- All that has a number from the end of $1 on lies above the first of these, and all that is visible now lies up to the
-- second. The order leaves the planner one index; without it, it would go through the whole store by position.
SELECT CASE WHEN pg_snapshot_xmax($1::pg_snapshot) <= '3' THEN 0 ELSE (
         SELECT coalesce(min(f.position) - 1, 0)
         FROM (SELECT e.position FROM "{schema}".stream_event e WHERE e.xid >= pg_snapshot_xmax($1::pg_snapshot)
               ORDER BY e.xid, e.position OFFSET 0) f) END,
       coalesce((SELECT max(e.position) FROM "{schema}".stream_event e), 0)
