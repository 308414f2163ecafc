-- Events of a slot as lines of JSON, and where they are, from ($2 shard, $3 seq) on: those that $1 sees, $4 at most, and
-- fewer if they have more than $5 bytes, about. Line breaks between the words of a JSON text become blanks; within its
-- strings there are none. Other payloads are base64.
SELECT row_to_json(line)::text, e.shard, e.seq
FROM (
  SELECT e.*, sum(e.octets + coalesce(octet_length(e.metadata::text), 0) + coalesce(octet_length(e.headers::text), 0) + 1000)
                OVER (ORDER BY e.shard, e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM (SELECT * FROM {schema}.event_{slot} e
        WHERE (e.shard, e.seq) > ($2::smallint, $3::bigint) AND pg_visible_in_snapshot(e.xid, $1::pg_snapshot)
        ORDER BY e.shard, e.seq LIMIT $4::bigint) e) e
CROSS JOIN LATERAL (
  SELECT e.seq, e.id, e.tenant, e.topic, coalesce(e.type, e.topic) AS type, e.aggregate_type, e.aggregate_id, e.version,
         e.key, translate(e.payload::text, E'\n\r', '  ')::json AS payload,
         translate(encode(e.payload_bytes, 'base64'), E'\n', '') AS payload_base64, e.content_type,
         translate(e.metadata::text, E'\n\r', '  ')::json AS metadata,
         translate(e.headers::text, E'\n\r', '  ')::json AS headers, e.routing_key, e.schema_id, e.schema_version,
         e.occurred_at, e.created_at, e.not_before, e.expires_at, e.attempts_max, e.dedup_key) line
WHERE coalesce(e.before, 0) < $5::bigint
ORDER BY e.shard, e.seq
