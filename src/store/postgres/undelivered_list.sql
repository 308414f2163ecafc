-- The newest undelivered events that match: the event (nulls if it is nowhere), the row (as fetch.sql has it), and more
-- about it.
-- $1 destination, $2 standings, $3 ids, $4 topic, $5 type, $6 tenant, $7 aggregate type, $8 aggregate id, $9 key,
-- $10 error (each a pattern), $11 since, $12 until, $13 before seq, $14 limit
SELECT u.*
FROM (SELECT d.name FROM {schema}.destination d WHERE $1::text IS NULL OR d.name = $1::text) d
CROSS JOIN unnest(coalesce($2::text[], '{retrying,blocked,scheduled,held,expired,expired_unknown,dead,dismissed}')) AS s (standing)
CROSS JOIN LATERAL (
  SELECT e.*, u.seq AS row_seq, u.shard AS row_shard, u.key AS row_key, u.standing, u.blocks, u.attempts, u.crashes,
         u.blamed, u.sending,
         ceil(greatest(0, 1000 * extract(epoch FROM u.due - clock_timestamp())))::bigint, u.error, u.in_doubt,
         u.ignore_expiry, u.redrives, u.destination, u.since, u.due,
         u.payload AS edited_payload, u.payload_bytes AS edited_bytes, u.headers AS edited_headers,
         u.id AS row_id
  FROM {schema}.undelivered u
  LEFT JOIN LATERAL (
    SELECT {columns} FROM {schema}.event e WHERE e.slot = u.slot AND e.shard = u.shard AND e.seq = u.seq
    UNION ALL
    SELECT {columns} FROM {schema}.kept e WHERE e.shard = u.shard AND e.seq = u.seq
    LIMIT 1) e ON true
  WHERE u.destination = d.name AND u.standing = s.standing AND u.seq < coalesce($13::bigint, 9223372036854775807)
    AND ($3::uuid[] IS NULL OR u.id = ANY ($3::uuid[]))
    AND ($10::text IS NULL OR u.error LIKE {schema}.like_pattern($10::text))
    AND ($11::timestamptz IS NULL OR u.since >= $11::timestamptz)
    AND ($12::timestamptz IS NULL OR u.since < $12::timestamptz)
    AND ($4::text IS NULL OR e.topic LIKE {schema}.like_pattern($4::text))
    AND ($5::text IS NULL OR coalesce(e.type, e.topic) LIKE {schema}.like_pattern($5::text))
    AND ($6::text IS NULL OR e.tenant LIKE {schema}.like_pattern($6::text))
    AND ($7::text IS NULL OR e.aggregate_type LIKE {schema}.like_pattern($7::text))
    AND ($8::text IS NULL OR e.aggregate_id LIKE {schema}.like_pattern($8::text))
    AND ($9::text IS NULL
         OR coalesce(e.key, e.aggregate_type || '/' || e.aggregate_id) LIKE {schema}.like_pattern($9::text))
  ORDER BY u.destination DESC, u.standing DESC, u.seq DESC LIMIT $14::bigint) u
ORDER BY u.row_seq DESC LIMIT $14::bigint
