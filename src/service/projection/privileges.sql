-- What others were granted on the schema $1 and on the tables in it, as statements that grant it on the schema $2 and on
-- what has the same names there.
SELECT format('GRANT %s ON %s TO %s%s', g.privilege_type, g.what,
              CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
              CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM (
  SELECT a.*, format('SCHEMA %I', $2::text) AS what
  FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a
  WHERE n.nspname = $1 AND a.grantee <> n.nspowner
  UNION ALL
  SELECT a.*, format('%s %I.%I', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, $2::text, c.relname)
  FROM pg_namespace n
  JOIN pg_class c ON c.relnamespace = n.oid
  JOIN pg_class same ON same.relname = c.relname AND (same.relkind = 'S') = (c.relkind = 'S')
  JOIN pg_namespace m ON m.oid = same.relnamespace AND m.nspname = $2
  CROSS JOIN LATERAL aclexplode(c.relacl) a
  WHERE n.nspname = $1 AND a.grantee <> c.relowner
) g
