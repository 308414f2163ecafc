-- Locks one lease that is ours: what makes the transaction's commit reach the disk, and with it all that it has seen.
-- And what time it is.
-- $1 destination, $2 owner, $3 shard, $4 term
SELECT shard, clock_timestamp()
FROM {schema}.lease WHERE destination = $1 AND shard = $3 AND term = $4 AND owner = $2 FOR KEY SHARE
