-- The slots that hold something, the oldest first; who holds those that are old; and who else is in them. $1 seconds
-- after which an event is old, $2 how many events to count exactly
SELECT s.slot, s.state, s.laps, s.oldest, s.first_seq, s.last_seq, (SELECT i.slot_seconds FROM {schema}.identity i),
       h.destination, h.events, h.oldest,
       (SELECT format('process %s%s', a.pid, coalesce(' (' || nullif(a.application_name, '') || ')', ''))
        FROM pg_locks k JOIN pg_stat_activity a ON a.pid = k.pid
        WHERE k.relation = ('{schema}.event_' || s.slot)::regclass AND k.granted AND a.pid <> pg_backend_pid()
          AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        ORDER BY a.xact_start LIMIT 1)
FROM {schema}.slots($1::bigint * interval '1 second') s
LEFT JOIN LATERAL {schema}.holding(s.slot, CASE WHEN s.state = 'old' THEN $2::bigint ELSE 0 END) h ON true
ORDER BY s.oldest, s.slot, h.destination
