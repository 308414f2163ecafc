-- Writes rows of `undelivered`, new ones and in place of old ones, and keeps a copy of what is dead. Only for shards whose
-- lease is ours, which settle.sql has locked.
-- $1 destination, $2 owner, $3 shards, $4 terms; for each row $5 shard, $6 seq, $7 key, $8 standing, $9 blocks,
-- $10 attempts, $11 crashes, $12 blamed, $13 sending, $14 milliseconds to wait, $15 error, $16 in doubt
-- An event may have been deleted by hand. Its row is written all the same, with the id that it had, and found to be
-- missing when it is fetched.
WITH written AS (
  INSERT INTO {schema}.undelivered AS u (destination, shard, seq, slot, id, key, standing, blocks, attempts, crashes,
                                         blamed, sending, due, error, in_doubt)
  SELECT $1, r.shard, r.seq, coalesce(e.slot, 0), coalesce(e.id, '00000000-0000-0000-0000-000000000000'), r.key,
         r.standing, r.blocks, r.attempts, r.crashes, r.blamed, r.sending,
         clock_timestamp() + r.wait * interval '1 millisecond', r.error, r.in_doubt
  FROM unnest($5::smallint[], $6::bigint[], $7::bigint[], $8::text[], $9::boolean[], $10::integer[], $11::integer[],
              $12::integer[], $13::smallint[], $14::bigint[], $15::text[], $16::boolean[])
       AS r (shard, seq, key, standing, blocks, attempts, crashes, blamed, sending, wait, error, in_doubt)
  LEFT JOIN LATERAL (
    SELECT e.slot, e.id FROM {schema}.event e WHERE e.shard = r.shard AND e.seq = r.seq
    UNION ALL
    SELECT k.slot, k.id FROM {schema}.kept k WHERE k.shard = r.shard AND k.seq = r.seq
    LIMIT 1) e ON true
  WHERE r.shard = ANY (ARRAY(
    SELECT l.shard FROM unnest($3::smallint[], $4::bigint[]) AS m (shard, term)
    JOIN {schema}.lease l ON l.destination = $1 AND l.shard = m.shard AND l.term = m.term AND l.owner = $2))
  ON CONFLICT (destination, shard, seq) DO UPDATE
  SET key = excluded.key, standing = excluded.standing, blocks = excluded.blocks, attempts = excluded.attempts,
      crashes = excluded.crashes, blamed = excluded.blamed, sending = excluded.sending, due = excluded.due,
      error = excluded.error, in_doubt = excluded.in_doubt,
      since = CASE WHEN excluded.standing IN ('expired', 'expired_unknown', 'dead', 'held') AND excluded.standing <> u.standing
                   THEN excluded.since ELSE u.since END
  RETURNING u.shard, u.seq, u.slot, u.standing
)
INSERT INTO {schema}.kept
SELECT e.* FROM written w
CROSS JOIN LATERAL (SELECT e.* FROM {schema}.event e WHERE e.slot = w.slot AND e.shard = w.shard AND e.seq = w.seq
                    ORDER BY e.shard, e.seq LIMIT 1) e
WHERE w.standing = 'dead'
ON CONFLICT DO NOTHING
