SELECT name, shadow, handled, behind, (extract(epoch FROM lag) * 1000)::bigint,
       to_char(changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
FROM "{schema}".projection_progress WHERE name = $1 OR $1 IS NULL ORDER BY name, shadow
