-- Ends rows of `undelivered`, of shards whose lease is ours.
-- $1 destination, $2 owner, $3 shards, $4 terms; for each row $5 shard, $6 seq
DELETE FROM {schema}.undelivered u
USING unnest($5::smallint[], $6::bigint[]) AS r (shard, seq)
WHERE u.destination = $1 AND u.shard = r.shard AND u.seq = r.seq AND r.shard = ANY (ARRAY(
  SELECT l.shard FROM unnest($3::smallint[], $4::bigint[]) AS m (shard, term)
  JOIN {schema}.lease l ON l.destination = $1 AND l.shard = m.shard AND l.term = m.term AND l.owner = $2))
