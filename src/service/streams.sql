-- From stream to stream by the index, however many events they have.
WITH RECURSIVE following (id) AS (
  SELECT (SELECT e.aggregate_id FROM {stream_event} e
          WHERE e.tenant = $1 AND e.aggregate_type = $2 AND e.aggregate_id > $3
          ORDER BY e.aggregate_id LIMIT 1)
  UNION ALL
  SELECT (SELECT e.aggregate_id FROM {stream_event} e
          WHERE e.tenant = $1 AND e.aggregate_type = $2 AND e.aggregate_id > f.id
          ORDER BY e.aggregate_id LIMIT 1)
  FROM following f WHERE f.id IS NOT NULL
)
SELECT l.aggregate_id, l.version, {recorded_at}
FROM (SELECT f.id FROM following f WHERE f.id IS NOT NULL LIMIT $4) s
JOIN {stream_event} l ON l.tenant = $1 AND l.aggregate_type = $2 AND l.aggregate_id = s.id
 AND l.version = (SELECT e.version FROM {stream_event} e
                  WHERE e.tenant = $1 AND e.aggregate_type = $2 AND e.aggregate_id = s.id
                  ORDER BY e.version DESC LIMIT 1)
ORDER BY l.aggregate_id
