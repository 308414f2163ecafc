SELECT name, shadow, handled, behind, (extract(epoch FROM lag) * 1000)::bigint, changed_at
FROM {schema}.projection_progress ORDER BY name, shadow
