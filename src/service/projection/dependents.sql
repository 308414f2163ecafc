-- What is not in the schema $1 and depends on something that is: it would stay with the old tables, or go with them.
SELECT DISTINCT i.type || ' ' || i.identity
FROM pg_namespace n
JOIN pg_depend d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid
                 OR d.refclassid = 'pg_class'::regclass
                    AND d.refobjid IN (SELECT c.oid FROM pg_class c WHERE c.relnamespace = n.oid)
                 OR d.refclassid = 'pg_type'::regclass
                    AND d.refobjid IN (SELECT t.oid FROM pg_type t WHERE t.typnamespace = n.oid)
                 OR d.refclassid = 'pg_proc'::regclass
                    AND d.refobjid IN (SELECT p.oid FROM pg_proc p WHERE p.pronamespace = n.oid)
-- A view depends by its rule.
LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
CROSS JOIN LATERAL pg_identify_object(CASE WHEN w.oid IS NULL THEN d.classid ELSE 'pg_class'::regclass END,
                                      coalesce(w.ev_class, d.objid), 0) i
WHERE n.nspname = $1 AND d.deptype <> 'i'
  AND n.oid <> coalesce(CASE d.classid
    WHEN 'pg_class'::regclass THEN (SELECT c.relnamespace FROM pg_class c WHERE c.oid = d.objid)
    WHEN 'pg_type'::regclass THEN (SELECT t.typnamespace FROM pg_type t WHERE t.oid = d.objid)
    WHEN 'pg_proc'::regclass THEN (SELECT p.pronamespace FROM pg_proc p WHERE p.oid = d.objid)
    WHEN 'pg_constraint'::regclass THEN (SELECT k.connamespace FROM pg_constraint k WHERE k.oid = d.objid)
    WHEN 'pg_statistic_ext'::regclass THEN (SELECT s.stxnamespace FROM pg_statistic_ext s WHERE s.oid = d.objid)
    ELSE (SELECT c.relnamespace FROM pg_class c WHERE c.oid = coalesce(
      w.ev_class,
      (SELECT a.adrelid FROM pg_attrdef a WHERE d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid),
      (SELECT t.tgrelid FROM pg_trigger t WHERE d.classid = 'pg_trigger'::regclass AND t.oid = d.objid),
      (SELECT p.polrelid FROM pg_policy p WHERE d.classid = 'pg_policy'::regclass AND p.oid = d.objid)))
  END, 0)
ORDER BY 1 LIMIT 5
