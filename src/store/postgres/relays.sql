SELECT r.id, r.name, r.alive_until > clock_timestamp(), r.last_seen, array_to_json(r.destinations)::text,
       (SELECT count(*) FROM {schema}.lease l WHERE l.owner = r.id)::integer, r.troubles::text, r.rules::text
FROM {schema}.relay r ORDER BY r.name, r.id
