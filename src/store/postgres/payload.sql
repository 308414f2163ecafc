-- The payload of an event in the log, or kept. $1 shard, $2 seq
SELECT e.payload, e.payload_bytes FROM {schema}.event e WHERE e.shard = $1::smallint AND e.seq = $2::bigint
UNION ALL
SELECT k.payload, k.payload_bytes FROM {schema}.kept k WHERE k.shard = $1::smallint AND k.seq = $2::bigint
LIMIT 1
