-- All events of transactions from $1 on lie above this seq. The order leaves the planner one index; without it, it would
-- go through the whole log by seq.
SELECT coalesce((SELECT min(f.seq) - 1 FROM (SELECT e.seq FROM {schema}.event e WHERE e.xid >= $1::xid8
                                             ORDER BY e.xid, e.shard, e.seq OFFSET 0) f),
                9223372036854775807)
