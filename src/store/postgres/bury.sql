-- Everything that blocks these keys is dead, of shards whose lease is ours. Found as in delivered.sql.
-- $1 destination, $2 owner, $3 shards, $4 terms; for each key $5 shard, $6 key
WITH buried AS (
  UPDATE {schema}.undelivered u
  SET standing = 'dead', blocks = false, sending = 0, since = clock_timestamp(), error = 'buried with an earlier event of its key'
  WHERE u.blocks AND u.ctid = ANY (ARRAY(
    SELECT f.ctid FROM unnest($5::smallint[], $6::bigint[]) AS r (shard, key)
    CROSS JOIN LATERAL (SELECT f.ctid FROM {schema}.undelivered f
                        WHERE f.destination = $1 AND f.shard = r.shard AND f.key >= r.key AND f.key <= r.key AND f.blocks
                        ORDER BY f.destination, f.shard, f.key, f.seq) f
    WHERE r.shard = ANY (ARRAY(
      SELECT l.shard FROM unnest($3::smallint[], $4::bigint[]) AS m (shard, term)
      JOIN {schema}.lease l ON l.destination = $1 AND l.shard = m.shard AND l.term = m.term AND l.owner = $2))))
  RETURNING u.shard, u.seq, u.slot
)
INSERT INTO {schema}.kept
SELECT e.* FROM buried b
CROSS JOIN LATERAL (SELECT e.* FROM {schema}.event e WHERE e.slot = b.slot AND e.shard = b.shard AND e.seq = b.seq
                    ORDER BY e.shard, e.seq LIMIT 1) e
ON CONFLICT DO NOTHING
