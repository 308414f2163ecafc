-- $1 how many events to count exactly
SELECT (SELECT max(version) FROM {schema}.migration), clock_timestamp(),
       (SELECT count(*) FROM (SELECT FROM {schema}.event LIMIT $1::bigint + 1) e),
       (SELECT sum(greatest(c.reltuples, 0))::bigint FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = '{schema}.event'::regclass)
