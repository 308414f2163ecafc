-- The least seq among the next $4 events at most, in the order of transactions, after the place ($1 xid, $2 shard, $3 seq);
-- how many they are, and the place of the last one. In parts, so that no statement takes long, whatever the backlog.
SELECT min(f.seq), count(*), (array_agg(f.xid))[count(*)::integer]::text, (array_agg(f.shard))[count(*)::integer],
       (array_agg(f.seq))[count(*)::integer]
FROM (SELECT e.xid, e.shard, e.seq FROM {schema}.event e
      WHERE (e.xid, e.shard, e.seq) > ($1::xid8, $2::smallint, $3::bigint)
      ORDER BY e.xid, e.shard, e.seq LIMIT $4::bigint) f
