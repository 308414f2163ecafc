-- Attempts at an event, oldest first. $1 shard, $2 seq
SELECT a.destination, a.number, a.at, a.outcome, a.error
FROM {schema}.attempt a WHERE a.shard = $1::smallint AND a.seq = $2::bigint
ORDER BY a.at, a.number
