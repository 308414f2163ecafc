-- Records attempts, at events of shards whose lease is ours.
-- $1 destination, $2 owner, $3 shards, $4 terms; for each $5 shard, $6 seq, $7 number, $8 at, $9 outcome, $10 error
INSERT INTO {schema}.attempt (destination, shard, seq, number, at, relay, outcome, error)
SELECT $1, r.shard, r.seq, r.number, r.at, $2, r.outcome, r.error
FROM unnest($5::smallint[], $6::bigint[], $7::integer[], $8::timestamptz[], $9::text[], $10::text[])
     AS r (shard, seq, number, at, outcome, error)
WHERE r.shard = ANY (ARRAY(
  SELECT l.shard FROM unnest($3::smallint[], $4::bigint[]) AS m (shard, term)
  JOIN {schema}.lease l ON l.destination = $1 AND l.shard = m.shard AND l.term = m.term AND l.owner = $2))
