-- How events ($1 shards, $2 seqs; numbered from 1) stand at each destination: number, destination; when the event was
-- settled, by the first cursor row that covers it, if the newest still does; its standing, if it is undelivered; was it
-- skipped, and by which rules since when.
SELECT e.number, d.name, CASE WHEN n.covers THEN s.settled_at END, u.standing, k.rules IS NOT NULL, r.match::text, r.since
FROM unnest($1::smallint[], $2::bigint[]) WITH ORDINALITY AS w (shard, seq, number)
CROSS JOIN LATERAL (
  SELECT w.number, e.shard, e.seq, e.xid, e.topic, e.type, e.tenant, e.aggregate_type FROM {schema}.event e
  WHERE e.shard = w.shard AND e.seq = w.seq
  UNION ALL
  SELECT w.number, k.shard, k.seq, k.xid, k.topic, k.type, k.tenant, k.aggregate_type FROM {schema}.kept k
  WHERE k.shard = w.shard AND k.seq = w.seq
  LIMIT 1) e
CROSS JOIN {schema}.destination d
LEFT JOIN LATERAL (
  SELECT c.settled_at FROM {schema}.cursor c
  WHERE c.destination = d.name AND c.hi > e.xid AND e.shard = ANY (c.shards)
    AND {schema}.is_settled(e.xid, e.seq, c.settled, c.walking, c.upto)
  ORDER BY c.destination, c.hi, c.id LIMIT 1) s ON true
LEFT JOIN LATERAL (
  SELECT {schema}.is_settled(e.xid, e.seq, c.settled, c.walking, c.upto) AS covers
  FROM {schema}.cursor c WHERE c.destination BETWEEN d.name AND d.name AND e.shard = ANY (c.shards)
  ORDER BY c.destination DESC, c.id DESC LIMIT 1) n ON true
LEFT JOIN LATERAL (
  SELECT u.standing FROM {schema}.undelivered u
  WHERE u.destination = d.name AND u.shard = e.shard AND u.seq >= e.seq AND u.seq <= e.seq
  ORDER BY u.seq LIMIT 1) u ON true
LEFT JOIN LATERAL (
  SELECT {schema}.skipped_by(d.name, e.shard, e.seq, e.xid, e.topic, e.type, e.tenant, e.aggregate_type) AS rules
  WHERE n.covers AND u.standing IS NULL) k ON true
LEFT JOIN {schema}.rules r ON r.destination = d.name AND r.id = k.rules
ORDER BY e.number, d.name
