-- Where a projection is, and whether that means anything here: transaction numbers of another cluster do not, nor do those
-- that this server has yet to give out. And whether we see all tenants: what we do not see would be passed over.
-- $1 name, $2 shadow
SELECT p.version, p.settled::text, p.walking::text, p.upto, p.floor, p.ceiling,
       EXISTS (SELECT FROM "{schema}".identity i, "{schema}".here() h
               WHERE i.system_identifier = h.system_identifier AND i.database = h.database)
       AND coalesce(pg_snapshot_xmax(coalesce(p.walking, p.settled)) <= pg_snapshot_xmax(pg_current_snapshot()), true),
       "{schema}".every_tenant(), current_user
FROM (SELECT) one LEFT JOIN "{schema}".projection p ON p.name = $1 AND p.shadow = $2::boolean
