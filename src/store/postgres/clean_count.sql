-- How many events a slot holds, exact up to $1; and how many about.
SELECT (SELECT count(*) FROM (SELECT FROM {schema}.event_{slot} LIMIT $1::bigint + 1) e),
       (SELECT greatest(c.reltuples, 0)::bigint FROM pg_class c WHERE c.oid = '{schema}.event_{slot}'::regclass)
