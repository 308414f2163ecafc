-- What an operator should know about this server: level, what, text, remedy.
SELECT * FROM (
  SELECT CASE WHEN current_setting('fsync')::boolean THEN 'ok' ELSE 'problem' END, 'fsync',
         'fsync is ' || current_setting('fsync'),
         CASE WHEN current_setting('fsync')::boolean THEN '' ELSE 'turn it on: a crash loses committed events' END
  UNION ALL
  SELECT CASE WHEN current_setting('full_page_writes')::boolean THEN 'ok' ELSE 'warning' END, 'full_page_writes',
         'full_page_writes is ' || current_setting('full_page_writes'),
         CASE WHEN current_setting('full_page_writes')::boolean THEN '' ELSE 'turn it on, unless the disk writes pages whole' END
  UNION ALL
  SELECT CASE WHEN current_setting('max_prepared_transactions')::integer = 0 THEN 'ok' ELSE 'note' END,
         'max_prepared_transactions', 'max_prepared_transactions is ' || current_setting('max_prepared_transactions'),
         CASE WHEN current_setting('max_prepared_transactions')::integer = 0 THEN ''
              ELSE 'relays poll instead of being told of news; set it to 0 if nobody uses PREPARE TRANSACTION' END
  UNION ALL
  SELECT CASE WHEN current_setting('autovacuum')::boolean THEN 'ok' ELSE 'warning' END, 'autovacuum',
         'autovacuum is ' || current_setting('autovacuum'),
         CASE WHEN current_setting('autovacuum')::boolean THEN '' ELSE 'turn it on' END
  UNION ALL
  SELECT CASE WHEN has_table_privilege('{schema}.cursor', 'INSERT') AND has_table_privilege('{schema}.event', 'SELECT')
              THEN 'ok' ELSE 'note' END, 'privileges',
         CASE WHEN has_table_privilege('{schema}.cursor', 'INSERT') AND has_table_privilege('{schema}.event', 'SELECT')
              THEN 'this user can run a relay' ELSE 'this user cannot run a relay' END,
         CASE WHEN has_table_privilege('{schema}.cursor', 'INSERT') AND has_table_privilege('{schema}.event', 'SELECT')
              THEN '' ELSE 'GRANT {schema}_relay TO ' || quote_ident(current_user) END
  UNION ALL
  SELECT CASE WHEN count(*) = 5 THEN 'ok' ELSE 'note' END, 'roles',
         count(*) || ' of the 5 roles {schema}_enqueue, {schema}_service, {schema}_relay, {schema}_operator, {schema}_reader are there',
         CASE WHEN count(*) = 5 THEN '' ELSE 'run ''waybill migrate'' as a user that may create roles' END
  FROM pg_roles WHERE rolname IN ('{schema}_enqueue', '{schema}_service', '{schema}_relay', '{schema}_operator',
                                     '{schema}_reader')
  UNION ALL
  (SELECT 'warning', 'xmin horizon',
          'held for ' || date_trunc('second', clock_timestamp() - a.xact_start) || ' by process ' || a.pid
            || coalesce(' of ' || a.usename, '') || coalesce(' (' || nullif(a.application_name, '') || ')', ''),
          'end that transaction: while it lasts, nothing can be vacuumed in this database'
   FROM pg_stat_activity a
   WHERE a.backend_xmin IS NOT NULL AND a.xact_start < clock_timestamp() - interval '5 minutes' AND a.pid <> pg_backend_pid()
   ORDER BY a.xact_start LIMIT 3)
  UNION ALL
  SELECT 'warning', 'xmin horizon', 'held by replication slot ' || s.slot_name,
         'drop the slot, or see why its consumer does not advance'
  FROM pg_replication_slots s
  WHERE NOT s.active AND (s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL)
  UNION ALL
  SELECT 'warning', 'xmin horizon', 'held by prepared transaction ' || quote_literal(p.gid) || ' since ' || p.prepared,
         'COMMIT PREPARED or ROLLBACK PREPARED it'
  FROM pg_prepared_xacts p WHERE p.prepared < clock_timestamp() - interval '5 minutes'
  UNION ALL
  SELECT 'problem', 'foreign rows', 'the log holds a transaction number that this server has not given out',
         'rows were copied in from elsewhere with their xid; remove them'
  WHERE EXISTS (SELECT FROM (SELECT FROM {schema}.event e WHERE e.xid >= pg_snapshot_xmax(pg_current_snapshot())
                             ORDER BY e.xid, e.shard, e.seq LIMIT 1) e)
  UNION ALL
  SELECT 'note', 'ring', format('the clock has come round to slot %s, which still holds events of %s', s.slot, s.oldest),
         'unless events are kept for ever, somebody holds the log back: ''waybill clean --dry-run'' says who'
  FROM {schema}.slots(interval '0') s WHERE s.laps
) AS finding (level, what, text, remedy)
