-- Everything that blocks these keys is dead, of shards whose lease is ours.
-- $1 destination, $2 owner, $3 shards, $4 terms; for each key $5 shard, $6 key
WITH buried AS (
  UPDATE {schema}.undelivered u
  SET standing = 'dead', blocks = false, sending = 0, error = 'buried with an earlier event of its key'
  FROM unnest($5::smallint[], $6::bigint[]) AS r (shard, key)
  WHERE u.destination = $1 AND u.shard = r.shard AND u.key = r.key AND u.blocks AND r.shard = ANY (ARRAY(
    SELECT l.shard FROM unnest($3::smallint[], $4::bigint[]) AS m (shard, term)
    JOIN {schema}.lease l ON l.destination = $1 AND l.shard = m.shard AND l.term = m.term AND l.owner = $2))
  RETURNING u.shard, u.seq, u.slot
)
INSERT INTO {schema}.kept
SELECT e.* FROM buried b JOIN {schema}.event e ON e.shard = b.shard AND e.seq = b.seq AND e.slot = b.slot
ON CONFLICT DO NOTHING
