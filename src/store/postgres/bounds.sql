-- Where the walk through a window begins and ends, for each lane. The order leaves the planner one index; without it, it
-- would go through the whole shard by seq.
-- $1 shards, $2 settled, $3 bases
SELECT lane.shard,
       coalesce((SELECT min(f.seq) - 1 FROM (
                   SELECT e.seq FROM {schema}.event e
                   WHERE e.shard = lane.shard AND e.xid >= lane.base AND NOT pg_visible_in_snapshot(e.xid, lane.settled)
                   ORDER BY e.xid, e.seq OFFSET 0) f),
                9223372036854775807) AS floor,
       (SELECT last_value FROM {schema}.event_seq_seq) AS ceiling
FROM unnest($1::smallint[], $2::pg_snapshot[], $3::xid8[]) AS lane (shard, settled, base)
