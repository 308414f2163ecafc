-- The least position among the next $3 events at most, in the order of transactions, after the place ($1 xid, $2 position);
-- how many they are, and the place of the last one. In parts, so that no statement takes long, whatever there is to catch
-- up with. And the last position of all.
SELECT min(f.position), count(*), (array_agg(f.xid))[count(*)::integer]::text, (array_agg(f.position))[count(*)::integer],
       coalesce((SELECT max(e.position) FROM "{schema}".stream_event e), 0)
FROM (SELECT e.xid, e.position FROM "{schema}".stream_event e WHERE (e.xid, e.position) > ($1::xid8, $2::bigint)
      ORDER BY e.xid, e.position LIMIT $3::bigint) f
