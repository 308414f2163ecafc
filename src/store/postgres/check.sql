-- Which schema this is, and whether it was made here: the cluster and database; the timeline then, and now; and which
-- server this is, for expect_server().
SELECT (SELECT max(version) FROM {schema}.migration),
       (SELECT max(oldest_program) FROM {schema}.migration),
       coalesce(i.system_identifier = h.system_identifier AND i.database = h.database, false),
       coalesce(i.timeline, 0), coalesce(h.timeline, 0),
       {schema}.server()
FROM (SELECT) one LEFT JOIN {schema}.identity i ON true LEFT JOIN {schema}.here() h ON true
