-- The events of a slot as lines of JSON. Line breaks between the words of a JSON text become blanks; within its strings
-- there are none. Other payloads are base64.
DECLARE archive NO SCROLL CURSOR FOR
SELECT row_to_json(line)::text
FROM (SELECT e.seq, e.id, e.tenant, e.topic, coalesce(e.type, e.topic) AS type, e.aggregate_type, e.aggregate_id, e.version,
             e.key, translate(e.payload::text, E'\n\r', '  ')::json AS payload,
             translate(encode(e.payload_bytes, 'base64'), E'\n', '') AS payload_base64, e.content_type,
             translate(e.metadata::text, E'\n\r', '  ')::json AS metadata,
             translate(e.headers::text, E'\n\r', '  ')::json AS headers, e.routing_key, e.schema_id, e.schema_version,
             e.occurred_at, e.created_at, e.not_before, e.expires_at, e.attempts_max, e.dedup_key
      FROM {schema}.event_{slot} e ORDER BY e.shard, e.seq) line
