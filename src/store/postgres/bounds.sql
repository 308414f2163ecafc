-- Where the walk through a window begins and ends, for each lane. "+ 0" keeps the planner from walking the log from its
-- start to find the least one.
-- $1 shards, $2 settled, $3 bases
SELECT lane.shard,
       coalesce((SELECT min(e.seq + 0) - 1 FROM {schema}.event e
                 WHERE e.shard = lane.shard AND e.xid >= lane.base AND NOT pg_visible_in_snapshot(e.xid, lane.settled)),
                9223372036854775807) AS floor,
       (SELECT last_value FROM {schema}.event_seq_seq) AS ceiling
FROM unnest($1::smallint[], $2::pg_snapshot[], $3::xid8[]) AS lane (shard, settled, base)
