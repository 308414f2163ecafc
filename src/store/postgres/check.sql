-- Which schema this is, and whether it was made here.
SELECT (SELECT max(version) FROM {schema}.migration),
       (SELECT max(oldest_program) FROM {schema}.migration),
       coalesce((SELECT i.system_identifier = s.system_identifier AND i.database = d.oid
                 FROM {schema}.identity i, pg_control_system() s, pg_database d
                 WHERE d.datname = current_database()), false)
