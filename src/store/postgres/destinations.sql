-- How far each destination is. $1 how many pending events of a shard to count exactly; beyond, an estimate: what was
-- written since the first of them.
SELECT d.name, count(*)::integer AS shards,
       count(*) FILTER (WHERE EXISTS (SELECT FROM {schema}.relay r
                                      WHERE r.id = l.owner AND r.alive_until > clock_timestamp()))::integer AS owned,
       CASE WHEN bool_or(p.pending > $1::bigint)
            THEN greatest(sum(p.pending), sum((SELECT s.last_value FROM {schema}.event_seq_seq s) - p.first + 1) / count(*))
            ELSE sum(p.pending) END::bigint,
       bool_or(p.pending > $1::bigint),
       min(p.oldest), max(c.settled_at),
       (SELECT coalesce(sum(m.count), 0)::bigint FROM {schema}.cursor m
        WHERE m.destination = d.name AND m.id > (SELECT max(n.id) - 5000 FROM {schema}.cursor n WHERE n.destination = d.name)
          AND m.settled_at > clock_timestamp() - interval '1 minute'),
       d.paused
FROM {schema}.destination d
JOIN {schema}.lease l ON l.destination = d.name
LEFT JOIN LATERAL (
  SELECT c.* FROM {schema}.cursor c WHERE c.destination BETWEEN d.name AND d.name AND l.shard = ANY (c.shards)
  ORDER BY c.destination DESC, c.id DESC LIMIT 1) c ON true
CROSS JOIN LATERAL (
  SELECT count(*) AS pending, min(e.created_at) AS oldest, min(e.seq) AS first FROM (
    (SELECT e.seq, e.created_at FROM {schema}.event e
     WHERE e.shard = l.shard AND e.xid >= pg_snapshot_xmax(coalesce(c.settled, '3:3:'))
       AND (c.walking IS NULL OR e.seq > c.upto OR NOT pg_visible_in_snapshot(e.xid, c.walking))
     ORDER BY e.xid, e.shard, e.seq LIMIT $1::bigint + 1)
    UNION ALL
    (SELECT late.seq, late.created_at FROM pg_snapshot_xip(c.settled) AS x (xid)
     CROSS JOIN LATERAL (
       SELECT e.seq, e.created_at FROM {schema}.event e
       WHERE (e.xid, e.shard, e.seq) >= (x.xid, l.shard, 0)
         AND (e.xid, e.shard, e.seq) <= (x.xid, l.shard, 9223372036854775807)
         AND (c.walking IS NULL OR e.seq > c.upto OR NOT pg_visible_in_snapshot(e.xid, c.walking))
       ORDER BY e.xid, e.shard, e.seq LIMIT $1::bigint + 1) late)
  ) e) p
GROUP BY d.name ORDER BY d.name
