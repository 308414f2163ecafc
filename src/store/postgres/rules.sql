-- The number of rules $2 of destination $1: that of the newest row if it has them, or of a new one. No row: another relay
-- came with its own meanwhile; ask again.
WITH newest AS MATERIALIZED (
  SELECT r.id, r.match::text = $2 AS same FROM {schema}.rules r WHERE r.destination = $1 ORDER BY r.id DESC LIMIT 1
), made AS (
  INSERT INTO {schema}.rules (destination, id, match)
  SELECT $1, coalesce((SELECT n.id FROM newest n), 0) + 1, $2::json
  WHERE NOT EXISTS (SELECT FROM newest n WHERE n.same)
  ON CONFLICT DO NOTHING RETURNING id
)
SELECT n.id FROM newest n WHERE n.same UNION ALL SELECT m.id FROM made m
