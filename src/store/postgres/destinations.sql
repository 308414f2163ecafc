-- How far each destination is.
SELECT d.name, l.shards, l.owned, p.events, p.exact, p.oldest, l.settled_at,
       (SELECT coalesce(sum(m.count), 0)::bigint FROM {schema}.cursor m
        WHERE m.destination = d.name AND m.id > (SELECT max(n.id) - 5000 FROM {schema}.cursor n WHERE n.destination = d.name)
          AND m.settled_at > clock_timestamp() - interval '1 minute'),
       d.paused
FROM {schema}.destination d
CROSS JOIN LATERAL (
  SELECT count(*)::integer AS shards,
         count(*) FILTER (WHERE EXISTS (SELECT FROM {schema}.relay r
                                        WHERE r.id = l.owner AND r.alive_until > clock_timestamp()))::integer AS owned,
         max(p.settled_at) AS settled_at
  FROM {schema}.lease l JOIN {schema}.place p ON p.destination = l.destination AND p.shard = l.shard
  WHERE l.destination = d.name) l
CROSS JOIN LATERAL {schema}.pending(d.name) p
WHERE l.shards > 0
ORDER BY d.name
