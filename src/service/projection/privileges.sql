-- What others were granted on the schema $1, on the tables in it and on their columns, as statements that grant it on the
-- schema $2 and on what has the same names there.
SELECT format('GRANT %s ON %s TO %s%s', g.privilege, g.what,
              CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
              CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM (
  SELECT a.grantee, a.is_grantable, a.privilege_type AS privilege, format('SCHEMA %I', $2::text) AS what
  FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a
  WHERE n.nspname = $1 AND a.grantee <> n.nspowner
  UNION ALL
  SELECT a.grantee, a.is_grantable, a.privilege_type,
         format('%s %I.%I', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, $2::text, c.relname)
  FROM pg_namespace n
  JOIN pg_class c ON c.relnamespace = n.oid
  JOIN pg_class same ON same.relname = c.relname AND (same.relkind = 'S') = (c.relkind = 'S')
  JOIN pg_namespace m ON m.oid = same.relnamespace AND m.nspname = $2
  CROSS JOIN LATERAL aclexplode(c.relacl) a
  WHERE n.nspname = $1 AND a.grantee <> c.relowner
  UNION ALL
  SELECT a.grantee, a.is_grantable, format('%s (%I)', a.privilege_type, k.attname),
         format('TABLE %I.%I', $2::text, c.relname)
  FROM pg_namespace n
  JOIN pg_class c ON c.relnamespace = n.oid
  JOIN pg_attribute k ON k.attrelid = c.oid
  JOIN pg_class same ON same.relname = c.relname
  JOIN pg_namespace m ON m.oid = same.relnamespace AND m.nspname = $2
  JOIN pg_attribute same_column ON same_column.attrelid = same.oid AND same_column.attname = k.attname
  CROSS JOIN LATERAL aclexplode(k.attacl) a
  WHERE n.nspname = $1 AND a.grantee <> c.relowner
) g
