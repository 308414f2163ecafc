-- What is undelivered in each shard whose lease is ours. Rows: shard, key, events, milliseconds until the first of them
-- may be tried (none: not by itself); and one for each shard without a key: the same of those without a key, how many
-- relays in a row have died here, and until when what was written may have been sent.
-- $1 destination, $2 owner, $3 shards, $4 terms
WITH mine AS MATERIALIZED (
  SELECT l.shard, l.crashes, l.in_doubt_until FROM unnest($3::smallint[], $4::bigint[]) AS m (shard, term)
  JOIN {schema}.lease l ON l.destination = $1 AND l.shard = m.shard AND l.term = m.term AND l.owner = $2
)
SELECT m.shard, k.key, k.events,
       CASE WHEN h.standing IN ('retrying', 'blocked', 'scheduled')
            THEN ceil(greatest(0, 1000 * extract(epoch FROM h.due - clock_timestamp())))::bigint END AS wait,
       NULL::integer AS crashes, NULL::timestamptz AS in_doubt_until
FROM mine m
CROSS JOIN LATERAL (
  SELECT u.key, min(u.seq) AS first, count(*) AS events FROM {schema}.undelivered u
  WHERE u.destination = $1 AND u.shard = m.shard AND u.blocks GROUP BY u.key) k
CROSS JOIN LATERAL (SELECT h.standing, h.due FROM {schema}.undelivered h
                    WHERE h.destination = $1 AND h.shard = m.shard AND h.seq >= k.first AND h.seq <= k.first
                    ORDER BY h.seq LIMIT 1) h
UNION ALL
SELECT m.shard, NULL, NULL,
       (SELECT ceil(greatest(0, 1000 * extract(epoch FROM u.due - clock_timestamp())))::bigint
        FROM {schema}.undelivered u
        WHERE u.destination = $1 AND u.shard = m.shard AND u.key = 0
          AND u.standing IN ('retrying', 'blocked', 'scheduled')
        ORDER BY u.destination, u.shard, u.due LIMIT 1),
       m.crashes, m.in_doubt_until
FROM mine m
