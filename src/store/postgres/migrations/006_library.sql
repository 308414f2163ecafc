-- What the library keeps beside the outbox, in the same database and so in the same transactions: streams, snapshots,
-- the inbox, idempotency keys, projections. oldest_program: 2

-- The event store: what happened to each aggregate, for good. Insert-only; clean does not touch it. There is no row for a
-- stream: its version is that of its last event, and that two cannot append the same version is what makes them take
-- turns.
CREATE TABLE {schema}.stream_event (
  -- In this order, as in `event`: whoever draws a position has a transaction number already.
  xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
  position       bigint NOT NULL GENERATED ALWAYS AS IDENTITY (CACHE 1),
  tenant         text COLLATE "C" NOT NULL,
  aggregate_type text COLLATE "C" NOT NULL,
  aggregate_id   text COLLATE "C" NOT NULL,
  version        bigint NOT NULL,
  id             uuid NOT NULL,
  topic          text NOT NULL,
  type           text NOT NULL,
  payload        json,
  payload_bytes  bytea,
  metadata       json,
  schema_id      text,
  schema_version integer,
  occurred_at    timestamptz NOT NULL,
  recorded_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (tenant, aggregate_type, aggregate_id, version)
);
-- For those who follow all streams: they read by windows of transactions, as relays do, and in a window by position.
-- (Within a stream the order of positions is that of versions, since a version is appended by one who has seen the one
-- before. The order of transaction numbers is not.)
CREATE INDEX stream_event_by_xid ON {schema}.stream_event (xid, position);
CREATE UNIQUE INDEX stream_event_by_position ON {schema}.stream_event (position);

-- The newest snapshot of a stream.
CREATE TABLE {schema}.snapshot (
  tenant         text COLLATE "C" NOT NULL,
  aggregate_type text COLLATE "C" NOT NULL,
  aggregate_id   text COLLATE "C" NOT NULL,
  version        bigint NOT NULL,
  state          bytea NOT NULL,
  schema_version integer NOT NULL,
  taken_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (tenant, aggregate_type, aggregate_id)
);

-- What each consumer has handled.
CREATE TABLE {schema}.inbox (
  tenant     text COLLATE "C" NOT NULL CHECK (octet_length(tenant) BETWEEN 1 AND 255),
  consumer   text COLLATE "C" NOT NULL CHECK (octet_length(consumer) BETWEEN 1 AND 255),
  message_id text COLLATE "C" NOT NULL CHECK (octet_length(message_id) BETWEEN 1 AND 512),
  handled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (tenant, consumer, message_id)
);
CREATE INDEX inbox_by_age ON {schema}.inbox (handled_at);

-- The answers to requests that may come again. One of 500 or more is none: what it is about is rolled back.
CREATE TABLE {schema}.idempotency (
  tenant       text COLLATE "C" NOT NULL CHECK (octet_length(tenant) BETWEEN 1 AND 255),
  key          text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
  fingerprint  text NOT NULL CHECK (octet_length(fingerprint) BETWEEN 1 AND 255),
  status       integer NOT NULL CHECK (status BETWEEN 100 AND 499),
  content_type text NOT NULL CHECK (octet_length(content_type) <= 255),
  body         bytea NOT NULL CHECK (octet_length(body) <= 1048576),
  answered_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at   timestamptz NOT NULL CHECK (expires_at > answered_at),
  PRIMARY KEY (tenant, key)
);
CREATE INDEX idempotency_by_expiry ON {schema}.idempotency (expires_at);

-- How far each projection is: all that is visible in `settled` is handled, and of what is visible in `walking` that up to
-- the position `upto`; what is not late of that window lies above `floor` and up to `ceiling`. No `settled`: it is fed
-- with events from elsewhere. A shadow is the one that a rebuild fills.
CREATE TABLE {schema}.projection (
  name       text COLLATE "C" NOT NULL,
  shadow     boolean NOT NULL DEFAULT false,
  version    integer NOT NULL,
  settled    pg_snapshot,
  walking    pg_snapshot,
  upto       bigint,
  floor      bigint,
  ceiling    bigint,
  handled    bigint NOT NULL DEFAULT 0,
  made_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (name, shadow),
  CHECK (num_nulls(walking, upto, floor, ceiling) IN (0, 4) AND (walking IS NULL OR settled IS NOT NULL))
) WITH (fillfactor = 40);

-- How far behind they are, whether or not the events concern them; at most 10,000 are counted. (In the middle of a window
-- those of its late transactions are left out.)
CREATE VIEW {schema}.projection_progress AS
SELECT p.name, p.shadow, p.version, p.handled, b.behind,
       greatest(coalesce(clock_timestamp() - b.oldest, interval '0'), interval '0') AS lag, p.made_at, p.changed_at
FROM {schema}.projection p
CROSS JOIN LATERAL (
  SELECT least(count(*), 10000) AS behind, min(u.recorded_at) AS oldest FROM (
    (SELECT e.recorded_at FROM {schema}.stream_event e
     WHERE p.walking IS NULL AND e.xid >= pg_snapshot_xmax(p.settled) ORDER BY e.xid, e.position LIMIT 10000)
    UNION ALL
    (SELECT l.recorded_at FROM unnest(ARRAY(SELECT pg_snapshot_xip(p.settled))) AS x (xid)
     CROSS JOIN LATERAL (
       SELECT e.recorded_at FROM {schema}.stream_event e
       WHERE p.walking IS NULL AND (e.xid, e.position) >= (x.xid, 0) AND (e.xid, e.position) <= (x.xid, 9223372036854775807)
       ORDER BY e.xid, e.position LIMIT 10000) l
     LIMIT 10000)
    UNION ALL
    (SELECT e.recorded_at FROM {schema}.stream_event e
     WHERE p.walking IS NOT NULL AND e.position > greatest(p.upto, p.floor)
       AND NOT pg_visible_in_snapshot(e.xid, p.settled)
     ORDER BY e.position LIMIT 10000)
  ) u
) b;

-- --- After a restore: see anchor()

-- Raises every sequence of the schema above the numbers that are stored: logical replication copies rows, not sequences.
-- The catalog says which column a sequence is for. Other tables and cursors keep numbers of events that the log has let go
-- of; those must not come again either.
CREATE FUNCTION {schema}.raise_sequences() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  owned record;
  highest bigint;
BEGIN
  FOR owned IN
    SELECT s.oid::regclass AS sequence, d.refobjid::regclass AS of, a.attname AS name
    FROM pg_class s
    JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.deptype IN ('a', 'i')
                    AND d.refclassid = 'pg_class'::regclass
    JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
    WHERE s.relkind = 'S' AND s.relnamespace = '{schema}'::regnamespace
  LOOP
    EXECUTE format('SELECT max(t.%I) FROM %s t', owned.name, owned.of) INTO highest;
    IF owned.of = '{schema}.event'::regclass THEN
      highest := greatest(highest, (SELECT max(k.seq) FROM {schema}.kept k), (SELECT max(u.seq) FROM {schema}.undelivered u),
                          (SELECT max(a.seq) FROM {schema}.attempt a), (SELECT max(c.seq) FROM {schema}.cleaned c),
                          (SELECT max(greatest(c.upto, c.floor, c.ceiling)) FROM {schema}.cursor c));
    END IF;
    EXECUTE format('SELECT setval(%1$L, $1) FROM %1$s s WHERE $1 >= s.last_value + s.is_called::integer', owned.sequence)
    USING highest;
  END LOOP;
END $$;

-- Events that were written here before the sequence was raised may have numbers that copied ones have. They were written
-- later, so they get numbers above those, in their own order.
CREATE FUNCTION {schema}.renumber_collisions(boundary xid8) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  present xid8 := pg_snapshot_xmax(pg_current_snapshot());
  copied bigint;
  place record;
BEGIN
  IF boundary IS NULL THEN
    RETURN;  -- Files were copied, and the sequence with them.
  END IF;
  SELECT max(e.seq) INTO copied FROM {schema}.event e
  WHERE NOT {schema}.written_since(boundary, e.xid, e.xmin::text::bigint, present);
  IF NOT EXISTS (SELECT FROM {schema}.event e
                 WHERE e.seq <= copied AND {schema}.written_since(boundary, e.xid, e.xmin::text::bigint, present)) THEN
    RETURN;
  END IF;
  FOR place IN
    SELECT e.tableoid, e.ctid FROM {schema}.event e
    WHERE {schema}.written_since(boundary, e.xid, e.xmin::text::bigint, present) ORDER BY e.seq
  LOOP
    UPDATE {schema}.event e SET seq = DEFAULT WHERE e.ctid = place.ctid AND e.tableoid = place.tableoid;
  END LOOP;
END $$;

-- Are there numbers that this server has yet to give out?
CREATE FUNCTION {schema}.streams_ahead(boundary xid8, present xid8) RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM {schema}.projection p
                 WHERE pg_snapshot_xmax(coalesce(p.walking, p.settled)) > coalesce(boundary, present))
      OR EXISTS (SELECT FROM (
                   SELECT FROM {schema}.stream_event e
                   WHERE e.xid >= coalesce(boundary, present)
                     AND NOT {schema}.written_since(boundary, e.xid, e.xmin::text::bigint, present)
                   ORDER BY e.xid, e.position LIMIT 1) e)
$$;

-- As anchor() does with the log: what was copied here gets numbers below all of this server's own, one for each set of
-- projections that have seen it, and checkpoints are rewritten to see the same events as before. Rebuilds begin anew.
CREATE FUNCTION {schema}.renumber_streams(boundary xid8) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  present xid8 := pg_snapshot_xmax(pg_current_snapshot());
  next bigint;
BEGIN
  LOCK TABLE {schema}.stream_event IN SHARE ROW EXCLUSIVE MODE;
  DELETE FROM {schema}.projection p WHERE p.shadow;
  -- Two letters for each projection: settled and walking.
  CREATE TEMP TABLE waybill_anchor_stream ON COMMIT DROP AS
  SELECT t.xid, t.seen, 3 + dense_rank() OVER (ORDER BY t.seen) AS number
  FROM (
    SELECT t.xid, coalesce(string_agg(CASE WHEN pg_visible_in_snapshot(t.xid, p.settled) THEN 's' ELSE '-' END
                                      || CASE WHEN pg_visible_in_snapshot(t.xid, p.walking) THEN 'w' ELSE '-' END, ''
                                      ORDER BY p.name), '') AS seen
    FROM (SELECT DISTINCT e.xid FROM {schema}.stream_event e
          WHERE NOT {schema}.written_since(boundary, e.xid, e.xmin::text::bigint, present)) t
    LEFT JOIN {schema}.projection p ON p.settled IS NOT NULL
    GROUP BY t.xid) t;
  next := 1 + coalesce((SELECT max(a.number) FROM pg_temp.waybill_anchor_stream a), 3);
  UPDATE {schema}.stream_event e SET xid = a.number::text::xid8 FROM pg_temp.waybill_anchor_stream a
  WHERE e.xid = a.xid AND NOT {schema}.written_since(boundary, e.xid, e.xmin::text::bigint, present);
  UPDATE {schema}.projection p SET settled = s.settled, walking = CASE WHEN p.walking IS NOT NULL THEN s.walking END
  FROM (
    SELECT o.name,
           format('%s:%s:%s', coalesce(min(n.number) FILTER (WHERE n.unsettled), next), next,
                  string_agg(n.number::text, ',' ORDER BY n.number) FILTER (WHERE n.unsettled))::pg_snapshot AS settled,
           format('%s:%s:%s', coalesce(min(n.number) FILTER (WHERE n.unwalked), next), next,
                  string_agg(n.number::text, ',' ORDER BY n.number) FILTER (WHERE n.unwalked))::pg_snapshot AS walking
    FROM (SELECT p.name, row_number() OVER (ORDER BY p.name) AS place FROM {schema}.projection p
          WHERE p.settled IS NOT NULL) o
    LEFT JOIN LATERAL (
      SELECT DISTINCT a.number, substr(a.seen, 2 * o.place::integer - 1, 1) = '-' AS unsettled,
                      substr(a.seen, 2 * o.place::integer, 1) = '-' AS unwalked
      FROM pg_temp.waybill_anchor_stream a) n ON true
    GROUP BY o.name) s
  WHERE p.name = s.name AND p.settled IS NOT NULL;
END $$;

-- --- Tenants

-- Does the current user see the rows of all tenants? Owners, relays and people do. By name, so that the tables can be
-- restored where these roles are not.
CREATE FUNCTION {schema}.every_tenant() RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = '{schema}.stream_event'::regclass), 'USAGE')
      OR EXISTS (SELECT FROM pg_roles r
                 WHERE r.rolname IN ('{schema}_relay', '{schema}_operator', '{schema}_reader')
                   AND pg_has_role(r.oid, 'USAGE'))
$$;

-- Everybody else sees and writes the rows of one tenant, which is named for each transaction:
-- set_config('waybill.tenant', 'north', true). If none is, there are none. Forced: also where a table is reached through
-- a view of its owner's. (The log is not read by applications. Whose events a transaction may write there is decided by
-- tenant_of(), for everybody.)
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['stream_event', 'snapshot', 'inbox', 'idempotency'] LOOP
    EXECUTE format('ALTER TABLE {schema}.%I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE {schema}.%I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY one_tenant ON {schema}.%I USING (tenant = current_setting(''waybill.tenant'', true) '
      'OR (SELECT {schema}.every_tenant()))', name);
  END LOOP;
END $$;

-- --- The event store

-- Appends events to a stream, and enqueues them: an array for each column, in the order of the events. Returns the
-- stream's new version; or, if its version is not the expected one, -1 minus what it is, having written nothing. NULL:
-- whatever it is; those who append so take turns.
--
-- Who inserts the first of the new versions waits for whoever is about to insert the same: it is his or ours, at any
-- isolation. (Above READ COMMITTED the loser may get a serialization failure instead of an answer.) The numbers in the log
-- are drawn after that.
CREATE FUNCTION {schema}.try_append(
  tenant text, aggregate_type text, aggregate_id text, expected bigint, ids uuid[], topics text[],
  types text[] DEFAULT NULL, keys text[] DEFAULT NULL, payloads json[] DEFAULT NULL, payloads_bytes bytea[] DEFAULT NULL,
  content_types text[] DEFAULT NULL, metadata json[] DEFAULT NULL, headers json[] DEFAULT NULL,
  routing_keys text[] DEFAULT NULL, schema_ids text[] DEFAULT NULL, schema_versions integer[] DEFAULT NULL,
  occurred_at timestamptz[] DEFAULT NULL, not_before timestamptz[] DEFAULT NULL, expires_at timestamptz[] DEFAULT NULL,
  attempts_max integer[] DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  actual bigint;
  i integer := 1;
BEGIN
  IF tenant <> nullif(current_setting('waybill.tenant', true), '') THEN
    RAISE insufficient_privilege USING MESSAGE = format(
      'this is a transaction of another tenant (waybill.tenant) than %L, whose stream it is', tenant);
  END IF;
  IF expected IS NULL THEN
    PERFORM pg_advisory_xact_lock(hashtextextended(aggregate_type || '/' || aggregate_id, hashtextextended(tenant, 1)));
  END IF;
  LOOP
    IF i = 1 THEN
      actual := coalesce((SELECT s.version FROM {schema}.stream_event s
                          WHERE s.tenant = try_append.tenant AND s.aggregate_type = try_append.aggregate_type
                            AND s.aggregate_id = try_append.aggregate_id
                          ORDER BY s.version DESC LIMIT 1), 0);
      IF actual <> expected THEN
        -- Whoever cannot see the stream is not told that there is none.
        IF actual = 0 AND tenant IS DISTINCT FROM current_setting('waybill.tenant', true)
           AND NOT {schema}.every_tenant() THEN
          RAISE insufficient_privilege USING MESSAGE = 'the transaction has not said whose it is (waybill.tenant)';
        END IF;
        RETURN -1 - actual;
      END IF;
    END IF;
    INSERT INTO {schema}.stream_event (tenant, aggregate_type, aggregate_id, version, id, topic, type, payload,
      payload_bytes, metadata, schema_id, schema_version, occurred_at)
    VALUES (tenant, aggregate_type, aggregate_id, actual + i, ids[i], topics[i], coalesce(types[i], topics[i]), payloads[i],
      payloads_bytes[i], metadata[i], schema_ids[i], schema_versions[i], coalesce(occurred_at[i], clock_timestamp()))
    ON CONFLICT ON CONSTRAINT stream_event_pkey DO NOTHING;
    IF NOT FOUND THEN
      IF i > 1 THEN
        RAISE SQLSTATE 'WB409' USING MESSAGE = format('stream %s/%s has a gap before version %s',
          aggregate_type, aggregate_id, actual + i);
      END IF;
      CONTINUE;  -- Somebody else was faster.
    END IF;
    INSERT INTO {schema}.event (id, tenant, topic, type, aggregate_type, aggregate_id, version, key, payload, payload_bytes,
      content_type, metadata, headers, routing_key, schema_id, schema_version, occurred_at, not_before, expires_at,
      attempts_max)
    VALUES (ids[i], tenant, topics[i], types[i], aggregate_type, aggregate_id, actual + i, keys[i], payloads[i],
      payloads_bytes[i], content_types[i], metadata[i], headers[i], routing_keys[i], schema_ids[i], schema_versions[i],
      occurred_at[i], not_before[i], expires_at[i], attempts_max[i]);
    IF i >= cardinality(ids) THEN
      RETURN actual + i;
    END IF;
    i := i + 1;
  END LOOP;
END $$;

-- Appends one event to the stream of an aggregate, and enqueues it. Returns the stream's new version. If its version is
-- not the expected one, raises WB409 with the version that it has as DETAIL. expected => NULL: whatever it is.
CREATE FUNCTION {schema}.append(
  aggregate_type text, aggregate_id text, expected bigint, topic text, payload json DEFAULT NULL,
  type text DEFAULT NULL, key text DEFAULT NULL, payload_bytes bytea DEFAULT NULL, content_type text DEFAULT NULL,
  metadata json DEFAULT NULL, headers json DEFAULT NULL, routing_key text DEFAULT NULL, schema_id text DEFAULT NULL,
  schema_version integer DEFAULT NULL, occurred_at timestamptz DEFAULT NULL, not_before timestamptz DEFAULT NULL,
  expires_at timestamptz DEFAULT NULL, attempts_max integer DEFAULT NULL, tenant text DEFAULT NULL, id uuid DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  version bigint;
BEGIN
  version := {schema}.try_append(
    {schema}.tenant_of(tenant), aggregate_type, aggregate_id, expected,
    ARRAY[coalesce(id, {schema}.new_id())], ARRAY[topic], ARRAY[type], ARRAY[key], ARRAY[payload], ARRAY[payload_bytes],
    ARRAY[content_type], ARRAY[metadata], ARRAY[headers], ARRAY[routing_key], ARRAY[schema_id], ARRAY[schema_version],
    ARRAY[occurred_at], ARRAY[not_before], ARRAY[expires_at], ARRAY[attempts_max]);
  IF version < 0 THEN
    RAISE SQLSTATE 'WB409' USING
      MESSAGE = format('stream %s/%s is at version %s, not %s', aggregate_type, aggregate_id, -1 - version, expected),
      DETAIL = (-1 - version)::text;
  END IF;
  RETURN version;
END $$;

-- --- The inbox

-- Is it the first time that the consumer gets this message? Whoever is told so handles it, in this transaction. If another
-- transaction is at it, waits for its end: if that has rolled back, it is the first time. Rests on the primary key alone.
-- (Above READ COMMITTED whoever has waited may get a serialization failure instead of `false`.)
CREATE FUNCTION {schema}.first_time(consumer text, message_id text, tenant text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  INSERT INTO {schema}.inbox (tenant, consumer, message_id)
  VALUES (coalesce(tenant, nullif(current_setting('waybill.tenant', true), ''), 'default'), consumer, message_id)
  ON CONFLICT DO NOTHING;
  RETURN FOUND;
END $$;

-- --- Idempotency keys

-- What is to be done about a request under this key, in this transaction? `first`: do it, and end with idempotency_end(),
-- in the same transaction. `again`: it was done; this is the answer of then. `running`: somebody is at it, and was still
-- after `wait`. `other`: the key was used for something else.
--
-- That it is done once rests on the primary key alone: of two answers under one key the second is not written, and its
-- transaction can only be begun again. The lock is there so that nobody need do the work to find that out. Its number is a
-- hash: who has another key with the same number, or uses the number for something else, is `running` to us for a while.
-- But an answer is looked up by tenant and key, so nobody gets another's.
CREATE FUNCTION {schema}.idempotency_begin(
  key text, fingerprint text, tenant text DEFAULT NULL, wait interval DEFAULT '0',
  OUT outcome text, OUT status integer, OUT content_type text, OUT body bytea)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  whose text := coalesce(tenant, nullif(current_setting('waybill.tenant', true), ''), 'default');
  number bigint := hashtextextended(key, hashtextextended('{schema} idempotency ' || whose, 0));
  timeout text := current_setting('lock_timeout');
  stored record;
BEGIN
  IF key IS NULL OR octet_length(key) NOT BETWEEN 1 AND 255
     OR fingerprint IS NULL OR octet_length(fingerprint) NOT BETWEEN 1 AND 255 THEN
    RAISE check_violation USING MESSAGE = 'an idempotency key and its fingerprint have 1 to 255 bytes each';
  END IF;
  IF wait NOT BETWEEN interval '0' AND interval '1 minute' THEN
    RAISE check_violation USING MESSAGE = 'nobody waits longer than a minute for another''s answer';
  END IF;
  -- First without the lock, since nobody needs it to be answered; then with it: it is let go after the commit.
  FOR look IN 1..2 LOOP
    SELECT i.fingerprint, i.status, i.content_type, i.body, i.expires_at <= clock_timestamp() AS expired INTO stored
    FROM {schema}.idempotency i WHERE i.tenant = whose AND i.key = idempotency_begin.key;
    IF NOT stored.expired AND stored.fingerprint <> fingerprint THEN
      outcome := 'other';
      RETURN;
    ELSIF NOT stored.expired THEN
      outcome := 'again';
      status := stored.status;
      content_type := stored.content_type;
      body := stored.body;
      RETURN;
    ELSIF look = 1 AND NOT pg_try_advisory_xact_lock(number) THEN
      outcome := 'running';
      IF wait = interval '0' THEN
        RETURN;
      END IF;
      BEGIN
        PERFORM set_config('lock_timeout', greatest(1, extract(epoch FROM wait) * 1000)::bigint::text, true);
        PERFORM pg_advisory_xact_lock(number);
        PERFORM set_config('lock_timeout', timeout, true);
      EXCEPTION WHEN lock_not_available THEN
        RETURN;
      END;
    END IF;
  END LOOP;
  IF stored.expired THEN
    DELETE FROM {schema}.idempotency i WHERE i.tenant = whose AND i.key = idempotency_begin.key;
  END IF;
  outcome := 'first';
END $$;

-- Keeps the answer to a request that idempotency_begin() has called `first`. One of 500 or more cannot be kept: roll back.
CREATE FUNCTION {schema}.idempotency_end(
  key text, fingerprint text, status integer, body bytea DEFAULT '', content_type text DEFAULT 'application/json',
  kept interval DEFAULT '24 hours', tenant text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  INSERT INTO {schema}.idempotency (tenant, key, fingerprint, status, content_type, body, expires_at)
  VALUES (coalesce(tenant, nullif(current_setting('waybill.tenant', true), ''), 'default'), key, fingerprint, status,
    content_type, body, clock_timestamp() + kept)
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RAISE serialization_failure USING MESSAGE = 'the request was answered meanwhile: begin the transaction again';
  END IF;
END $$;

-- --- Cleaning: `most` rows at most; how many there were. dry: counts. Whoever else cleans takes other rows.

CREATE FUNCTION {schema}.sweep_inbox(older_than interval, most bigint, dry boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before timestamptz := clock_timestamp() - older_than;
  rows bigint;
BEGIN
  IF num_nulls(most, dry) > 0 THEN
    RAISE null_value_not_allowed USING MESSAGE = 'most and dry must be given: one of them is NULL';
  END IF;
  IF dry THEN
    RETURN (SELECT count(*) FROM (SELECT FROM {schema}.inbox i WHERE i.handled_at < before LIMIT most) i);
  END IF;
  PERFORM {schema}.check_age(older_than);
  DELETE FROM {schema}.inbox i
  WHERE i.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.inbox o WHERE o.handled_at < before ORDER BY o.handled_at LIMIT most
    FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS rows = ROW_COUNT;
  RETURN rows;
END $$;

-- What has expired.
CREATE FUNCTION {schema}.sweep_idempotency(most bigint, dry boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before timestamptz := clock_timestamp();
  rows bigint;
BEGIN
  IF num_nulls(most, dry) > 0 THEN
    RAISE null_value_not_allowed USING MESSAGE = 'most and dry must be given: one of them is NULL';
  END IF;
  IF dry THEN
    RETURN (SELECT count(*) FROM (SELECT FROM {schema}.idempotency i WHERE i.expires_at <= before LIMIT most) i);
  END IF;
  DELETE FROM {schema}.idempotency i
  WHERE i.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.idempotency o WHERE o.expires_at <= before ORDER BY o.expires_at LIMIT most
    FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS rows = ROW_COUNT;
  RETURN rows;
END $$;
