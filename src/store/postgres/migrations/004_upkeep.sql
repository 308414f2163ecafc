-- Keeping the log in order: slots are emptied, old rows go, and whose log this is. oldest_program: 2

-- timeline: of the server's WAL; another one after a standby was promoted or a backup restored. log and born: the log's
-- number in the catalog and the transaction that wrote this row; both survive where files are copied, neither where rows
-- are: that is how a dump is told from a clone.
ALTER TABLE {schema}.identity
  ADD COLUMN timeline integer,
  ADD COLUMN log      oid,
  ADD COLUMN born     xid8;

-- Where we are now.
CREATE FUNCTION {schema}.here(OUT system_identifier bigint, OUT database oid, OUT timeline integer, OUT log oid)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.system_identifier, d.oid,
         CASE WHEN NOT pg_is_in_recovery()
              THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer END,
         '{schema}.event'::regclass::oid
  FROM pg_control_system() s, pg_database d WHERE d.datname = current_database()
$$;

UPDATE {schema}.identity i SET timeline = h.timeline, log = h.log, born = pg_current_xact_id() FROM {schema}.here() h
WHERE i.system_identifier = h.system_identifier AND i.database = h.database;

-- Which run of which server this is, as one text. Another cluster, database or timeline has another; so has the same
-- server after a restart, since after a crash it hands out transaction numbers again. By the moment at which the server was
-- started, which no two have in common, and not by the cluster's identifier: that takes a file to be read each time. The
-- database is told by where a table lies that every one has: its name would not tell two that have changed names.
-- Every claim asks, so that this must be cheap: it is volatile, as what it calls, and has no sub-select, because
-- otherwise it could not be inlined, and would be planned anew in each transaction (70 us, not 7). Hence the names in full
-- and no search_path to be set.
CREATE FUNCTION {schema}.server() RETURNS text LANGUAGE sql AS $$
  SELECT pg_catalog.concat_ws('/', pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()),
    CASE WHEN NOT pg_catalog.pg_is_in_recovery()
         THEN pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8) END,
    pg_catalog.pg_relation_filepath('pg_catalog.pg_namespace'::pg_catalog.regclass),
    '{schema}.event'::pg_catalog.regclass::pg_catalog.oid)
$$;

-- The beginning of every transaction that uses what another transaction has read: behind a pooler the server may have
-- changed between them.
CREATE FUNCTION {schema}.expect_server(expected text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF {schema}.server() OPERATOR(pg_catalog.<>) expected THEN
    RAISE connection_exception USING MESSAGE = pg_catalog.format(
      'the connection leads to another server, or the server was restarted (now %s, before %s): what was read before '
      'may mean something else here', {schema}.server(), expected);
  END IF;
END $$;

-- A transaction's number in full: the last one up to `present` that ends in these 32 bits.
CREATE FUNCTION {schema}.full_xid(number bigint, present xid8) RETURNS xid8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (number OPERATOR(pg_catalog.+)
          (((present::text::bigint OPERATOR(pg_catalog.-) number) OPERATOR(pg_catalog./) 4294967296)
           OPERATOR(pg_catalog.*) 4294967296))::text::pg_catalog.xid8
$$;

-- Was a row written here, since rows were copied here? Those that were copied were all written by one transaction, the
-- boundary; those written here say so themselves, or a little less where there was a savepoint. boundary: none, if nothing
-- was copied.
CREATE FUNCTION {schema}.written_since(boundary xid8, xid xid8, written bigint, present xid8)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT boundary IS NOT NULL AND xid OPERATOR(pg_catalog.>=) boundary
     AND xid OPERATOR(pg_catalog.<=) {schema}.full_xid(written, present)
$$;

-- Begins another history, in which everything is that readers had got in the ones before; returns its id.
CREATE FUNCTION {schema}.begin_history() RETURNS text LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO {schema}.history (followed)
  SELECT coalesce((SELECT h.followed FROM {schema}.history h ORDER BY h.followed DESC LIMIT 1), '3') RETURNING id
$$;

-- A standby took over, and whoever asks has said that this is expected.
CREATE FUNCTION {schema}.note_timeline() RETURNS void LANGUAGE sql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  UPDATE {schema}.identity i
  SET timeline = h.timeline, born = pg_current_xact_id(), history = {schema}.begin_history()
  FROM {schema}.here() h
  WHERE i.system_identifier = h.system_identifier AND i.database = h.database AND i.timeline <> h.timeline
$$;

ALTER TABLE {schema}.operation DROP CONSTRAINT operation_kind_check;
ALTER TABLE {schema}.operation ADD CONSTRAINT operation_kind_check
  CHECK (kind IN ('redrive', 'dismiss', 'edit', 'pause', 'resume', 'rewind', 'forget', 'anchor'));

-- How far the log was emptied: whoever keeps a place of his own before it has missed something.
CREATE TABLE {schema}.cleaned (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  xid xid8 NOT NULL,
  seq bigint NOT NULL,
  at  timestamptz NOT NULL
);

CREATE INDEX dedup_by_time ON {schema}.dedup (created_at);
CREATE INDEX attempt_by_time ON {schema}.attempt (at);

-- Where each destination is in each shard. An event is settled there if it is visible in `settled`, or visible in
-- `walking` with a seq up to `upto`. "BETWEEN" and not "=": else the order is that of id alone, and the planner walks back
-- through the rows of all destinations for one that has been quiet.
CREATE VIEW {schema}.place AS
SELECT l.destination, l.shard, coalesce(c.settled, '3:3:') AS settled, c.walking, c.upto, c.id AS cursor, c.settled_at
FROM {schema}.lease l
LEFT JOIN LATERAL (
  SELECT c.* FROM {schema}.cursor c
  WHERE c.destination BETWEEN l.destination AND l.destination AND l.shard = ANY (c.shards)
  ORDER BY c.destination DESC, c.id DESC LIMIT 1) c ON true;

-- The slots that hold something. Age is told by the events, not by the clock's laps: so a slot into which the clock came
-- again before it was emptied is as young as the youngest in it. state: 'written' (the clock is in it, or about to be),
-- 'young', or 'old'. laps: it holds events of more than one.
CREATE FUNCTION {schema}.slots(
  older_than interval, OUT slot smallint, OUT first_seq bigint, OUT last_seq bigint, OUT last_xid xid8,
  OUT oldest timestamptz, OUT newest timestamptz, OUT state text, OUT laps boolean)
RETURNS SETOF record LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
  now timestamptz := clock_timestamp();
  seconds bigint;
  shards smallint;
  soon bigint;
BEGIN
  SELECT i.slot_seconds, i.shards INTO seconds, shards FROM {schema}.identity i;
  soon := least(seconds / 8, 600);
  FOR number IN 0..7 LOOP
    EXECUTE format($q$
      SELECT min(f.seq), max(l.seq), min(f.created_at), max(l.created_at)
      FROM generate_series(0, $1 - 1) AS s (shard)
      CROSS JOIN LATERAL (SELECT e.seq, e.created_at FROM {schema}.event_%1$s e
                          WHERE e.shard = s.shard ORDER BY e.shard, e.seq LIMIT 1) f
      CROSS JOIN LATERAL (SELECT e.seq, e.created_at FROM {schema}.event_%1$s e
                          WHERE e.shard = s.shard ORDER BY e.shard DESC, e.seq DESC LIMIT 1) l $q$, number)
    INTO first_seq, last_seq, oldest, newest USING shards;
    CONTINUE WHEN first_seq IS NULL;
    EXECUTE format($q$
      SELECT e.xid FROM {schema}.event_%1$s e ORDER BY e.xid DESC, e.shard DESC, e.seq DESC LIMIT 1 $q$, number)
    INTO last_xid;
    slot := number;
    laps := newest - oldest > make_interval(secs => 2 * seconds);
    state := CASE WHEN number IN ((extract(epoch FROM now)::bigint / seconds) % 8,
                                  ((extract(epoch FROM now)::bigint + soon) / seconds) % 8) THEN 'written'
                  WHEN newest <= now - slots.older_than THEN 'old'
                  ELSE 'young' END;
    laps := laps OR (state = 'written' AND oldest < now - make_interval(secs => 2 * seconds));
    RETURN NEXT;
  END LOOP;
END $$;

-- The same of all shards of a destination together, by number of shard (from 1): so one walk through the log serves them
-- all, and none walks through what the others have before them. base: nobody has settled anything from here on, but for
-- what he has seen by himself; late: transactions before it that were open when somebody last looked.
CREATE VIEW {schema}.places AS
SELECT p.destination, array_agg(p.settled ORDER BY p.shard) AS settled, array_agg(p.walking ORDER BY p.shard) AS walking,
       array_agg(p.upto ORDER BY p.shard) AS upto,
       (array_agg(pg_snapshot_xmax(p.settled) ORDER BY pg_snapshot_xmax(p.settled)))[1] AS base,
       ARRAY(SELECT DISTINCT x.xid FROM unnest(array_agg(p.settled)) AS s (settled)
             CROSS JOIN LATERAL pg_snapshot_xip(s.settled) AS x (xid)) AS late
FROM {schema}.place p GROUP BY p.destination;

-- Who has not settled all of a slot, and how many events of it, about: `most` at most.
CREATE FUNCTION {schema}.holding(
  slot smallint, most bigint, OUT destination text, OUT events bigint, OUT oldest timestamptz)
RETURNS SETOF record LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
  RETURN QUERY EXECUTE format($q$
    SELECT p.destination, h.events, h.oldest
    FROM {schema}.places p
    CROSS JOIN LATERAL (
      SELECT count(*) AS events, min(e.created_at) AS oldest FROM (
        (SELECT e.created_at FROM {schema}.event_%1$s e
         WHERE e.xid >= p.base
           AND NOT {schema}.is_settled(e.xid, e.seq, p.settled[e.shard + 1], p.walking[e.shard + 1], p.upto[e.shard + 1])
         ORDER BY e.xid, e.shard, e.seq LIMIT $1)
        UNION ALL
        (SELECT late.created_at FROM unnest(p.late) AS x (xid)
         CROSS JOIN LATERAL (
           SELECT e.created_at FROM {schema}.event_%1$s e
           WHERE e.xid >= x.xid AND e.xid <= x.xid AND x.xid < p.base
             AND NOT {schema}.is_settled(e.xid, e.seq, p.settled[e.shard + 1], p.walking[e.shard + 1], p.upto[e.shard + 1])
           ORDER BY e.xid, e.shard, e.seq LIMIT $1) late)
        LIMIT $1) e) h
    WHERE h.events > 0 ORDER BY p.destination $q$, holding.slot) USING holding.most;
END $$;

-- Copies events of a slot that are undelivered somewhere, `most` at most, to where they are found without it. Returns how
-- many.
CREATE FUNCTION {schema}.keep(slot smallint, most bigint) RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  copied bigint;
BEGIN
  -- Under the lock of whoever calls: nothing may be planned anew by what the statistics happen to say.
  PERFORM set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true),
          set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);
  EXECUTE format($q$
    INSERT INTO {schema}.kept
    SELECT e.*
    FROM {schema}.slots(interval '0') s
    CROSS JOIN {schema}.destination d
    CROSS JOIN unnest('{retrying,blocked,scheduled,held,expired,expired_unknown,dead,dismissed}'::text[]) AS t (standing)
    JOIN {schema}.undelivered u ON u.destination = d.name AND u.standing = t.standing
                               AND u.seq BETWEEN s.first_seq AND s.last_seq
    JOIN {schema}.event_%1$s e ON e.shard = u.shard AND e.seq = u.seq
    WHERE s.slot = $1 AND NOT EXISTS (SELECT FROM {schema}.kept k WHERE k.shard = u.shard AND k.seq = u.seq)
    LIMIT $2
    ON CONFLICT DO NOTHING $q$, keep.slot) USING keep.slot, keep.most;
  GET DIAGNOSTICS copied = ROW_COUNT;
  RETURN copied;
END $$;

-- Relays clean by themselves, by ages that they are told; only a user who may forget a destination may clean what is
-- younger than an hour. By the clock: as an interval, '1 month - 29 days' is a day, but not in March.
CREATE FUNCTION {schema}.check_age(age interval) RETURNS void LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF check_age.age IS NULL THEN
    RAISE null_value_not_allowed USING MESSAGE = 'nothing is cleaned without an age: it is NULL';
  ELSIF clock_timestamp() - check_age.age > clock_timestamp() - interval '1 hour'
     AND NOT has_function_privilege(session_user, '{schema}.forget(text, boolean, uuid, text)', 'EXECUTE') THEN
    RAISE insufficient_privilege
      USING MESSAGE = 'only a user with the role {schema}_operator may clean what is younger than an hour';
  END IF;
END $$;

-- One cleans at a time, until the end of his transaction; false: somebody else does. By a lock on a table, since an advisory
-- lock could be taken by everybody who can connect; in a mode that gives the transaction no number and stops no reader.
CREATE FUNCTION {schema}.clean_alone() RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  LOCK TABLE {schema}.cleaned IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END $$;

-- Who is in which slot now, by transaction. To be asked seldom: meanwhile nobody gets a lock on anything.
CREATE FUNCTION {schema}.slot_holders(OUT slot smallint, OUT holder text, OUT pid integer)
RETURNS SETOF record LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.slot::smallint, k.virtualtransaction, k.pid
  FROM pg_locks k
  JOIN (SELECT n AS slot, ('{schema}.event_' || n)::regclass AS relation FROM generate_series(0, 7) AS n) s
    ON s.relation = k.relation
  WHERE k.granted AND k.pid <> pg_backend_pid()
    AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
$$;

-- The slots that somebody holds for longer than a moment, and who. A dump does. It is not waited for at all: relays would
-- stand behind whoever waits.
CREATE FUNCTION {schema}.slots_in_use(OUT slot smallint, OUT by text) RETURNS SETOF record LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  holders CONSTANT text[] := ARRAY(SELECT DISTINCT h.holder FROM {schema}.slot_holders() h);
BEGIN
  IF holders = '{}' THEN
    RETURN;
  END IF;
  PERFORM pg_sleep(0.05);
  RETURN QUERY
    SELECT DISTINCT ON (h.slot) h.slot,
           format('process %s%s', h.pid, coalesce(' (' || nullif(a.application_name, '') || ')', ''))
    FROM {schema}.slot_holders() h LEFT JOIN pg_stat_activity a ON a.pid = h.pid
    WHERE h.holder = ANY (holders) ORDER BY h.slot, a.xact_start;
END $$;

-- Empties a slot if all in it is old, settled everywhere, and kept where it is undelivered. All of that is looked at
-- before the slot is locked; operations that move a cursor back wait, and are waited for, so it stays true. Under the lock
-- it is looked once more, in a statement that began after it was had, whether anything is in the slot that was not seen
-- then: what a late transaction has committed meanwhile counts. So the lock is held for a moment, whatever is in the slot.
-- archived: nor may there be anything that this snapshot does not see.
-- Returns 'emptied', 'busy', 'needed', or 'changed'.
CREATE FUNCTION {schema}.empty_slot(slot smallint, older_than interval, archived pg_snapshot DEFAULT NULL)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  seen pg_snapshot;
  candidate record;
  unseen boolean;
BEGIN
  PERFORM {schema}.check_age(empty_slot.older_than);
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE invalid_transaction_state
      USING MESSAGE = 'a slot is emptied under READ COMMITTED only: otherwise late events would be overlooked';
  END IF;
  IF NOT {schema}.clean_alone() THEN
    RETURN 'busy';
  END IF;
  -- Not for longer: whoever comes behind us in the queue for a lock waits as well.
  PERFORM set_config('lock_timeout', '100ms', true);
  BEGIN
    PERFORM FROM {schema}.destination d ORDER BY d.name FOR SHARE;
  EXCEPTION WHEN lock_not_available THEN
    RETURN 'busy';
  END;
  seen := coalesce(empty_slot.archived, pg_current_snapshot());
  SELECT s.* INTO candidate FROM {schema}.slots(empty_slot.older_than) s WHERE s.slot = empty_slot.slot;
  IF candidate.state IS DISTINCT FROM 'old' OR EXISTS (SELECT FROM {schema}.holding(empty_slot.slot, 1)) THEN
    RETURN 'needed';
  END IF;
  PERFORM {schema}.keep(empty_slot.slot, 9223372036854775807);
  IF EXISTS (SELECT FROM {schema}.slots_in_use() u WHERE u.slot = empty_slot.slot) THEN
    RETURN 'busy';
  END IF;
  BEGIN
    EXECUTE format('LOCK TABLE ONLY {schema}.event_%s IN ACCESS EXCLUSIVE MODE', empty_slot.slot);
  EXCEPTION WHEN lock_not_available THEN
    RETURN 'busy';
  END;
  EXECUTE format($q$
    SELECT EXISTS (SELECT FROM (SELECT FROM {schema}.event_%1$s e WHERE e.xid >= pg_snapshot_xmax($1)
                                ORDER BY e.xid, e.shard, e.seq LIMIT 1) e)
      OR EXISTS (SELECT FROM pg_snapshot_xip($1) AS x (xid)
                 CROSS JOIN LATERAL (SELECT FROM {schema}.event_%1$s e WHERE e.xid >= x.xid AND e.xid <= x.xid
                                     ORDER BY e.xid, e.shard, e.seq LIMIT 1) e) $q$, empty_slot.slot)
  INTO unseen USING seen;
  IF unseen THEN
    RETURN 'changed';
  END IF;
  INSERT INTO {schema}.cleaned AS c (xid, seq, at) VALUES (candidate.last_xid, candidate.last_seq, clock_timestamp())
  ON CONFLICT (one) DO UPDATE
  SET xid = CASE WHEN c.xid > excluded.xid THEN c.xid ELSE excluded.xid END, seq = greatest(c.seq, excluded.seq),
      at = excluded.at;
  EXECUTE format('TRUNCATE ONLY {schema}.event_%s', empty_slot.slot);
  RETURN 'emptied';
END $$;

-- Removes old rows besides the log, `most` of each kind at most: dedup keys; dead letters, and what is dismissed or has
-- expired, unless it blocks its key; copies of events that nobody refers to; attempts; rows of the cursor from before
-- everything in the log, but never the newest of a shard, and rules that none refers to any more; operations, but none of the last 30 days, whoever asks. dry:
-- counts.
CREATE FUNCTION {schema}.sweep(
  events_older_than interval, dead_older_than interval, dedup_older_than interval, most bigint, dry boolean,
  OUT dead bigint, OUT dedup bigint, OUT more boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  now timestamptz := clock_timestamp();
  history timestamptz;
  newest bigint[];
  rows bigint;
BEGIN
  IF num_nulls(sweep.most, sweep.dry) > 0 THEN
    RAISE null_value_not_allowed USING MESSAGE = 'most and dry must be given: one of them is NULL';
  END IF;
  IF sweep.dry THEN
    SELECT count(*) INTO dedup FROM (
      SELECT FROM {schema}.dedup d WHERE d.created_at < now - sweep.dedup_older_than ORDER BY d.created_at
      LIMIT sweep.most) d;
    SELECT count(*) INTO dead FROM (
      SELECT FROM {schema}.destination d CROSS JOIN unnest('{dead,dismissed,expired,expired_unknown}'::text[]) AS t (standing)
      JOIN {schema}.undelivered u ON u.destination = d.name AND u.standing = t.standing
      WHERE u.since < now - sweep.dead_older_than AND NOT u.blocks LIMIT sweep.most) u;
    more := false;
    RETURN;
  END IF;
  PERFORM {schema}.check_age(sweep.events_older_than), {schema}.check_age(sweep.dead_older_than),
          {schema}.check_age(sweep.dedup_older_than);
  IF NOT {schema}.clean_alone() THEN
    dead := 0;
    dedup := 0;
    more := false;
    RETURN;
  END IF;
  DELETE FROM {schema}.dedup d
  WHERE d.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.dedup o WHERE o.created_at < now - sweep.dedup_older_than
    ORDER BY o.created_at LIMIT sweep.most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS dedup = ROW_COUNT;
  DELETE FROM {schema}.undelivered u
  USING (SELECT o.destination, o.shard, o.seq
         FROM {schema}.destination d CROSS JOIN unnest('{dead,dismissed,expired,expired_unknown}'::text[]) AS t (standing)
         JOIN {schema}.undelivered o ON o.destination = d.name AND o.standing = t.standing
         WHERE o.since < now - sweep.dead_older_than AND NOT o.blocks LIMIT sweep.most
         FOR UPDATE OF o SKIP LOCKED) o
  WHERE u.destination = o.destination AND u.shard = o.shard AND u.seq = o.seq;
  GET DIAGNOSTICS dead = ROW_COUNT;
  more := greatest(dedup, dead) >= sweep.most;
  DELETE FROM {schema}.kept k
  USING (SELECT o.shard, o.seq FROM {schema}.kept o
         WHERE o.created_at < now - sweep.events_older_than
           AND NOT EXISTS (SELECT FROM {schema}.destination d
                           JOIN {schema}.undelivered u ON u.destination = d.name AND u.shard = o.shard AND u.seq = o.seq)
         LIMIT sweep.most) o
  WHERE k.shard = o.shard AND k.seq = o.seq;
  GET DIAGNOSTICS rows = ROW_COUNT;
  more := more OR rows >= sweep.most;
  DELETE FROM {schema}.attempt a
  WHERE a.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.attempt o
    WHERE o.at < now - sweep.events_older_than
      AND NOT EXISTS (SELECT FROM {schema}.undelivered u
                      WHERE u.destination = o.destination AND u.shard = o.shard AND u.seq = o.seq)
    ORDER BY o.at LIMIT sweep.most));
  GET DIAGNOSTICS rows = ROW_COUNT;
  more := more OR rows >= sweep.most;
  SELECT least(min(s.oldest), now - sweep.events_older_than) INTO history FROM {schema}.slots(interval '0') s;
  newest := ARRAY(SELECT p.cursor FROM {schema}.place p WHERE p.cursor IS NOT NULL);
  -- The first rows by number, of which those of quiet shards stay: at most one for each shard.
  DELETE FROM {schema}.cursor c
  USING (SELECT o.id FROM {schema}.destination d
         CROSS JOIN LATERAL (SELECT o.id, o.settled_at FROM {schema}.cursor o WHERE o.destination = d.name
                             ORDER BY o.destination, o.id LIMIT sweep.most + 256) o
         WHERE o.settled_at < history AND o.id <> ALL (newest) LIMIT sweep.most) o
  WHERE c.id = o.id;
  GET DIAGNOSTICS rows = ROW_COUNT;
  more := more OR rows >= sweep.most;
  DELETE FROM {schema}.rules r
  WHERE r.since < history AND r.id < (SELECT max(n.id) FROM {schema}.rules n WHERE n.destination = r.destination)
    AND NOT EXISTS (SELECT FROM {schema}.relay v WHERE r.destination = ANY (v.destinations)
                      AND v.alive_until > now - interval '1 day' AND (v.rules -> r.destination)::text = r.match::text)
    AND NOT EXISTS (SELECT FROM {schema}.cursor c WHERE c.destination = r.destination AND c.rules = r.id);
  DELETE FROM {schema}.operation o
  WHERE o.id = ANY (ARRAY(SELECT p.id FROM {schema}.operation p WHERE p.at < now - greatest(sweep.dead_older_than, interval '30 days')
                          ORDER BY p.at LIMIT sweep.most));
END $$;

-- What is different about this place, in words; nothing if nothing is. boundary: what was written here since the rows were
-- copied has numbers from here on; none, if files were copied. renumber: some numbers this server has yet to give out.
CREATE FUNCTION {schema}.estrangement(OUT difference text, OUT boundary xid8, OUT renumber boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  was record;
  here record;
  copied_rows boolean;  -- rather than files: what is stored here was written by other transactions than it says
  present xid8 := pg_snapshot_xmax(pg_current_snapshot());
BEGIN
  SELECT i.*, i.xmin::text::bigint AS written INTO was FROM {schema}.identity i;
  SELECT h.* INTO here FROM {schema}.here() h;
  copied_rows := was.log IS DISTINCT FROM here.log OR was.born IS NULL
                 OR was.born::text::bigint % 4294967296 <> was.written;
  boundary := CASE WHEN copied_rows THEN {schema}.full_xid(was.written, present) END;
  renumber := EXISTS (
    SELECT FROM {schema}.destination d
    CROSS JOIN LATERAL (SELECT c.hi FROM {schema}.cursor c WHERE c.destination = d.name
                        ORDER BY c.destination DESC, c.hi DESC LIMIT 1) c
    WHERE c.hi > coalesce(boundary, present));
  renumber := renumber OR EXISTS (
    SELECT FROM (
      SELECT FROM {schema}.event e
      WHERE e.xid >= coalesce(boundary, present)
        AND NOT {schema}.written_since(boundary, e.xid, e.xmin::text::bigint, present)
      ORDER BY e.xid, e.shard, e.seq LIMIT 1) e);
  renumber := renumber OR {schema}.streams_ahead(boundary, present);
  difference := concat_ws('; ',
    CASE WHEN was.system_identifier <> here.system_identifier THEN 'another cluster' END,
    CASE WHEN was.system_identifier = here.system_identifier AND was.database <> here.database
         THEN 'another database' END,
    CASE WHEN was.system_identifier = here.system_identifier AND was.timeline <> here.timeline
         THEN format('timeline %s instead of %s: a standby was promoted, or a backup restored',
                     here.timeline, was.timeline) END,
    CASE WHEN was.system_identifier = here.system_identifier AND was.database = here.database AND copied_rows
         THEN 'the tables were restored from a dump' END,
    CASE WHEN renumber THEN 'transaction numbers that this server has not come to yet' END);
END $$;

-- Locks all that anchor() changes, in the order of everybody who locks some of it: destinations, leases, the log. Tried
-- for a moment each time, since whoever comes behind us in the queue for a lock waits as well; and given up after a while.
CREATE FUNCTION {schema}.lock_for_anchor() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  deadline timestamptz := clock_timestamp() + interval '5 seconds';
BEGIN
  PERFORM set_config('lock_timeout', '100ms', true);
  LOOP
    BEGIN
      LOCK TABLE {schema}.cleaned IN SHARE UPDATE EXCLUSIVE MODE;
      PERFORM FROM {schema}.destination d ORDER BY d.name FOR UPDATE;
      PERFORM FROM {schema}.lease l ORDER BY l.destination, l.shard FOR UPDATE;
      LOCK TABLE {schema}.event IN SHARE ROW EXCLUSIVE MODE;
      PERFORM set_config('lock_timeout', '5s', true);
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      IF clock_timestamp() > deadline THEN
        RAISE lock_not_available USING MESSAGE = concat(
          'the log is in use', (
            SELECT format(' by process %s%s', a.pid, coalesce(' (' || nullif(a.application_name, '') || ')', ''))
            FROM pg_locks k JOIN pg_stat_activity a ON a.pid = k.pid
            WHERE k.granted AND k.mode <> 'AccessShareLock' AND a.pid <> pg_backend_pid() AND k.relation IN (
              SELECT t.relid FROM pg_partition_tree('{schema}.event') t
              UNION ALL VALUES ('{schema}.cleaned'::regclass), ('{schema}.destination'), ('{schema}.lease'))
            ORDER BY a.xact_start LIMIT 1),
          ': end its transaction, or stop what writes events or cleans for a moment; nothing was changed');
      END IF;
    END;
    PERFORM pg_sleep(0.05 + random() / 10);
  END LOOP;
END $$;

-- After a restore, a copy, an upgrade, a promotion: makes this the log's own place, so that relays trust it; destinations
-- are paused, so that a copy sends nothing by itself. For whoever owns the tables.
--
-- Cursors are snapshots, and whether one sees an event is arithmetic on stored numbers: where all that was stored before
-- is below the numbers that this server gives out, cursors stay as they are. Otherwise (a dump restored into a younger
-- server) events get new numbers below all of its own: one for each set of cursors that see an event, of which there are
-- few; and cursors are rewritten to see the same events as before. What was written here since the rows were copied keeps
-- its number, and is seen by none: so nothing is lost, and what was settled stays settled. The cursors' history goes.
--
-- events: what is still to be sent, to all destinations together; counted before anything is locked.
CREATE FUNCTION {schema}.anchor(
  dry boolean DEFAULT true, operation uuid DEFAULT NULL, by text DEFAULT NULL,
  OUT needed boolean, OUT difference text, OUT events bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  strange record := {schema}.estrangement();
  here record;
  boundary xid8 := strange.boundary;
  renumber boolean;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE invalid_transaction_state USING MESSAGE = 'anchor runs under READ COMMITTED only';
  END IF;
  PERFORM set_config('synchronous_commit', 'on', true);
  difference := strange.difference;
  needed := difference <> '';
  SELECT count(*) INTO events FROM {schema}.event e JOIN {schema}.place p ON p.shard = e.shard
  WHERE {schema}.written_since(boundary, e.xid, e.xmin::text::bigint, (SELECT pg_snapshot_xmax(pg_current_snapshot())))
     OR NOT {schema}.is_settled(e.xid, e.seq, p.settled, p.walking, p.upto);
  events := events + (SELECT count(*) FROM {schema}.undelivered u
                      WHERE u.standing IN ('retrying', 'blocked', 'scheduled'));
  IF anchor.dry IS DISTINCT FROM false OR NOT needed THEN
    RETURN;
  END IF;
  PERFORM {schema}.lock_for_anchor();
  strange := {schema}.estrangement();  -- Somebody else may have done it; and numbers are given out.
  needed := strange.difference <> '';
  IF NOT needed THEN
    RETURN;
  END IF;
  boundary := strange.boundary;
  renumber := strange.renumber;

  IF renumber THEN
    -- Which cursors see it, for each transaction of old: two letters for each destination, settled and walking.
    CREATE TEMP TABLE waybill_anchor ON COMMIT DROP AS
    SELECT t.shard, t.xid, t.seen, 3 + dense_rank() OVER (PARTITION BY t.shard ORDER BY t.seen) AS number
    FROM (
      SELECT t.shard, t.xid,
             string_agg(CASE WHEN pg_visible_in_snapshot(t.xid, p.settled) THEN 's' ELSE '-' END
                        || CASE WHEN pg_visible_in_snapshot(t.xid, p.walking) THEN 'w' ELSE '-' END, ''
                        ORDER BY p.destination) AS seen
      FROM (SELECT DISTINCT e.shard, e.xid FROM {schema}.event e
            WHERE NOT {schema}.written_since(boundary, e.xid, e.xmin::text::bigint, (SELECT pg_snapshot_xmax(pg_current_snapshot())))) t
      LEFT JOIN {schema}.place p ON p.shard = t.shard
      GROUP BY t.shard, t.xid) t;
    CREATE TEMP TABLE waybill_anchor_place ON COMMIT DROP AS
    SELECT p.*, c.floor, c.ceiling, c.rules,
           row_number() OVER (PARTITION BY p.shard ORDER BY p.destination) AS place,
           1 + coalesce((SELECT max(a.number) FROM pg_temp.waybill_anchor a WHERE a.shard = p.shard), 3) AS next
    FROM {schema}.place p LEFT JOIN {schema}.cursor c ON c.id = p.cursor;
    UPDATE {schema}.event e SET xid = a.number::text::xid8 FROM pg_temp.waybill_anchor a
    WHERE e.shard = a.shard AND e.xid = a.xid
      AND NOT {schema}.written_since(boundary, e.xid, e.xmin::text::bigint, (SELECT pg_snapshot_xmax(pg_current_snapshot())));
    UPDATE {schema}.kept k SET xid = '3';
    DELETE FROM {schema}.cursor;
    INSERT INTO {schema}.cursor (destination, shards, settled, walking, upto, floor, ceiling, hi, count, rules)
    SELECT p.destination, ARRAY[p.shard], s.settled, s.walking, p.upto, p.floor, p.ceiling,
           pg_snapshot_xmax(coalesce(s.walking, s.settled)), 0, p.rules
    FROM pg_temp.waybill_anchor_place p
    CROSS JOIN LATERAL (
      SELECT format('%s:%s:%s', coalesce(min(n.number) FILTER (WHERE n.settled), e.next), e.next,
                    string_agg(n.number::text, ',' ORDER BY n.number) FILTER (WHERE n.settled))::pg_snapshot AS settled,
             CASE WHEN p.walking IS NOT NULL THEN
               format('%s:%s:%s', coalesce(min(n.number) FILTER (WHERE n.walking), e.next), e.next,
                      string_agg(n.number::text, ',' ORDER BY n.number) FILTER (WHERE n.walking))::pg_snapshot
             END AS walking
      FROM (SELECT p.next) e
      LEFT JOIN (SELECT DISTINCT a.number, substr(a.seen, 2 * p.place::integer - 1, 1) = '-' AS settled,
                        substr(a.seen, 2 * p.place::integer, 1) = '-' AS walking
                 FROM pg_temp.waybill_anchor a WHERE a.shard = p.shard) n ON true
      GROUP BY e.next) s
    WHERE p.cursor IS NOT NULL;
    DELETE FROM {schema}.cleaned;
    DELETE FROM {schema}.history;  -- No place of old means anything any more.
    PERFORM {schema}.renumber_streams(boundary);
  END IF;
  PERFORM {schema}.raise_sequences();
  PERFORM {schema}.renumber_collisions(boundary);

  -- Relays that are still at it find their leases gone.
  UPDATE {schema}.lease l
  SET term = l.term + 1, owner = NULL, since = clock_timestamp(), crashes = 0, cursor = NULL,
      in_doubt_until = clock_timestamp();
  DELETE FROM {schema}.relay;
  UPDATE {schema}.destination d SET paused = true, changes = d.changes + 1;
  SELECT h.* INTO here FROM {schema}.here() h;
  UPDATE {schema}.identity i
  SET system_identifier = here.system_identifier, database = here.database, timeline = here.timeline, log = here.log,
      born = pg_current_xact_id(), history = {schema}.begin_history();
  INSERT INTO {schema}.operation (id, kind, by, login, destination, details, events)
  VALUES (coalesce(anchor.operation, {schema}.new_id()), 'anchor', coalesce(anchor.by, session_user), session_user, '',
          jsonb_build_object('difference', difference, 'renumbered', renumber), anchor.events)
  ON CONFLICT DO NOTHING;
  PERFORM pg_notify('{schema}_leases', '');
END $$;
