-- When the first event at or after seq $1 of some shard was written; and the last seq given out.
SELECT (SELECT min(f.created_at) FROM generate_series(0, (SELECT i.shards FROM {schema}.identity i) - 1) AS s (shard)
        CROSS JOIN LATERAL (SELECT e.created_at FROM {schema}.event e WHERE e.shard = s.shard AND e.seq >= $1::bigint
                            ORDER BY e.seq LIMIT 1) f),
       (SELECT last_value FROM {schema}.event_seq_seq)
