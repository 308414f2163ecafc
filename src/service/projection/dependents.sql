-- What is not in the schema $1 and depends on something that is: it would stay with the old tables, or go with them.
WITH own AS (
  SELECT 'pg_namespace'::regclass::oid AS classid, n.oid AS objid FROM pg_namespace n WHERE n.nspname = $1
  UNION
  SELECT d.classid, d.objid FROM pg_namespace n
  JOIN pg_depend d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid WHERE n.nspname = $1
  UNION
  SELECT 'pg_class'::regclass, c.oid FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid WHERE n.nspname = $1
  UNION
  SELECT 'pg_type'::regclass, t.oid FROM pg_namespace n JOIN pg_type t ON t.typnamespace = n.oid WHERE n.nspname = $1
)
SELECT DISTINCT i.type || ' ' || i.identity
FROM own
JOIN pg_depend d ON d.refclassid = own.classid AND d.refobjid = own.objid
-- A view depends by its rule.
LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
CROSS JOIN LATERAL pg_identify_object(CASE WHEN w.oid IS NULL THEN d.classid ELSE 'pg_class'::regclass END,
                                      coalesce(w.ev_class, d.objid), 0) i
-- What has no schema by itself is where its table is, or its family of operators.
LEFT JOIN pg_class t ON i.schema IS NULL AND t.oid = coalesce(
  (SELECT a.adrelid FROM pg_attrdef a WHERE d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid),
  (SELECT g.tgrelid FROM pg_trigger g WHERE d.classid = 'pg_trigger'::regclass AND g.oid = d.objid),
  (SELECT p.polrelid FROM pg_policy p WHERE d.classid = 'pg_policy'::regclass AND p.oid = d.objid))
LEFT JOIN pg_opfamily f ON i.schema IS NULL AND f.oid = coalesce(
  (SELECT o.amopfamily FROM pg_amop o WHERE d.classid = 'pg_amop'::regclass AND o.oid = d.objid),
  (SELECT p.amprocfamily FROM pg_amproc p WHERE d.classid = 'pg_amproc'::regclass AND p.oid = d.objid))
WHERE d.deptype <> 'i'
  AND quote_ident($1) IS DISTINCT FROM
      coalesce(i.schema, coalesce(t.relnamespace, f.opfnamespace)::regnamespace::text)
ORDER BY 1 LIMIT 5
