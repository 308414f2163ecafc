-- A relay's heartbeat, and what it needs to know. Rows by kind:
--   lease: destination, shard, term, mine (true) or free (false)
--   destination: name, shards, relays alive that serve it besides this one, paused, changes
--   expiry: milliseconds until the next relay's time runs out; null if there is none
-- It does not touch the log: whoever has that locked must not cost a relay its leases.
-- A relay that leaves serves nothing any more as far as others are concerned, and still hears of its leases.
-- $1 id, $2 name, $3 lease in ms, $4 destinations, $5 troubles, $6 rules, $7 whether it leaves
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
beat AS (
  INSERT INTO {schema}.relay (id, name, alive_until, last_seen, destinations, troubles, rules)
  SELECT $1, $2, now + $3 * interval '1 millisecond', now,
         CASE WHEN $7::boolean THEN '{}' ELSE $4::text[] END, $5::json, $6::json FROM clock
  ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until, last_seen = excluded.last_seen,
                                 destinations = excluded.destinations, troubles = excluded.troubles
), others AS MATERIALIZED (
  SELECT r.id, r.alive_until, r.destinations FROM {schema}.relay r, clock WHERE r.id <> $1 AND r.alive_until > clock.now
)
SELECT 'lease' AS kind, l.destination, l.shard::integer, l.term, l.owner IS NOT DISTINCT FROM $1 AS mine, NULL::bigint AS changes
FROM {schema}.lease l
WHERE l.destination = ANY ($4::text[])
  AND (l.owner IS NULL OR l.owner = $1 OR NOT EXISTS (SELECT FROM others o WHERE o.id = l.owner))
UNION ALL
SELECT 'destination', d.name, (SELECT i.shards FROM {schema}.identity i)::integer,
       (SELECT count(*) FROM others o WHERE d.name = ANY (o.destinations)), d.paused, d.changes
FROM {schema}.destination d WHERE d.name = ANY ($4::text[])
UNION ALL
SELECT 'expiry', NULL, NULL,
       (SELECT (1000 * extract(epoch FROM min(o.alive_until) - clock.now))::bigint FROM others o, clock GROUP BY clock.now),
       NULL, NULL
