-- Ends rows of `undelivered`, of shards whose lease is ours. They are looked up one by one, and by a range of seq, which
-- leaves one plan: a join that was planned while the table was empty, or seq = seq, went through all of a destination.
-- $1 destination, $2 owner, $3 shards, $4 terms; for each row $5 shard, $6 seq
DELETE FROM {schema}.undelivered u
WHERE u.ctid = ANY (ARRAY(
  SELECT f.ctid FROM unnest($5::smallint[], $6::bigint[]) AS r (shard, seq)
  CROSS JOIN LATERAL (SELECT f.ctid FROM {schema}.undelivered f
                      WHERE f.destination = $1 AND f.shard = r.shard AND f.seq >= r.seq AND f.seq <= r.seq
                      ORDER BY f.seq LIMIT 1) f
  WHERE r.shard = ANY (ARRAY(
    SELECT l.shard FROM unnest($3::smallint[], $4::bigint[]) AS m (shard, term)
    JOIN {schema}.lease l ON l.destination = $1 AND l.shard = m.shard AND l.term = m.term AND l.owner = $2))))
