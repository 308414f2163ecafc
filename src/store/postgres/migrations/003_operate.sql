-- What people do, as functions for psql and for the program alike. oldest_program: 2
--
-- Each is one transaction, safe beside running relays and other operators: a destination is changed by one operation at
-- a time, only events that are dead, held or expired are touched, and relays are told. An operation is repeated under its id: it
-- goes on where it stopped and touches nothing twice, since it touches nothing that has died after it was begun. Patterns
-- have '*' for any text.
--
--   SELECT waybill.redrive('mail', topic => 'mail.*');  -- again, until it returns 0; with most => 10 slower
--   SELECT waybill.dismiss('mail', ids => '{018f3c1e-…}');
--   SELECT waybill.edit('mail', '018f3c1e-…', payload => '{"to": "x@example.org"}');
--   SELECT waybill.pause('mail'); SELECT waybill.resume('mail');
--   SELECT * FROM waybill.rewind('mail', to_time => '2026-01-01 12:00Z');  -- says what it would do; dry => false does it
--   SELECT * FROM waybill.forget('old-mail');                              -- likewise

-- A pattern as LIKE has it.
CREATE FUNCTION {schema}.like_pattern(pattern text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
  SELECT replace(replace(replace(replace(pattern, '\', '\\'), '%', '\%'), '_', '\_'), '*', '%')
$$;

-- Records an operation, or finds that it was begun before; tells the relays. Until the transaction ends, no other
-- operation changes the destination.
CREATE FUNCTION {schema}.begin_operation(
  id uuid, kind text, by text, destination text, details jsonb,
  OUT done bigint, OUT begun_at timestamptz, OUT repeated boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  earlier {schema}.operation;
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true);
  UPDATE {schema}.destination d SET changes = d.changes + 1 WHERE d.name = begin_operation.destination;
  IF NOT FOUND THEN
    RAISE invalid_parameter_value
      USING MESSAGE = format('there is no destination ''%s''', begin_operation.destination);
  END IF;
  INSERT INTO {schema}.operation (id, kind, by, login, destination, details)
  VALUES (begin_operation.id, begin_operation.kind, coalesce(begin_operation.by, session_user), session_user,
          begin_operation.destination, jsonb_strip_nulls(begin_operation.details))
  ON CONFLICT DO NOTHING;
  repeated := NOT FOUND;
  SELECT o.* INTO earlier FROM {schema}.operation o WHERE o.id = begin_operation.id;
  IF earlier.kind <> begin_operation.kind OR earlier.destination <> begin_operation.destination THEN
    RAISE invalid_parameter_value
      USING MESSAGE = format('operation %s is a %s of destination ''%s''', earlier.id, earlier.kind, earlier.destination);
  END IF;
  done := earlier.events;
  begun_at := earlier.at;
  PERFORM pg_notify('{schema}_leases', '');
END $$;

-- Locks undelivered events that an operation begun at that time may change, oldest first; returns where they are: dead and
-- held ones, and expired ones if their standing or ids are named. What
-- somebody else has locked is passed over while there is anything else, and then waited for: nothing means that there is
-- nothing left.
CREATE FUNCTION {schema}.lock_undelivered(
  destination text, begun_at timestamptz, standings text[], ids uuid[], topic text, type text, tenant text,
  aggregate_type text, aggregate_id text, key text, error text, since timestamptz, until timestamptz, before_seq bigint,
  most integer)
RETURNS SETOF tid LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  manner text;
  resting text := $r$'dead', 'held'$r$;
BEGIN
  -- Expired events only if somebody asks for them.
  IF ids IS NOT NULL OR standings && '{expired,expired_unknown}' THEN
    resting := $r$'dead', 'held', 'expired', 'expired_unknown'$r$;
  END IF;
  FOREACH manner IN ARRAY ARRAY['SKIP LOCKED', ''] LOOP
    RETURN QUERY EXECUTE format($q$
      SELECT u.ctid
      FROM {schema}.undelivered u
      WHERE u.destination = $1 AND u.standing IN (%s) AND ($3 IS NULL OR u.standing = ANY ($3))
        AND u.since <= $2 AND ($4 IS NULL OR u.id = ANY ($4))
        AND ($11 IS NULL OR u.error LIKE {schema}.like_pattern($11))
        AND ($12 IS NULL OR u.since >= $12) AND ($13 IS NULL OR u.since < $13) AND ($14 IS NULL OR u.seq < $14)
        AND (coalesce($5, $6, $7, $8, $9, $10) IS NULL OR EXISTS (
          SELECT FROM (
            SELECT e.topic, e.type, e.tenant, e.aggregate_type, e.aggregate_id, e.key FROM {schema}.event e
            WHERE e.slot = u.slot AND e.shard = u.shard AND e.seq = u.seq
            UNION ALL
            SELECT k.topic, k.type, k.tenant, k.aggregate_type, k.aggregate_id, k.key FROM {schema}.kept k
            WHERE k.shard = u.shard AND k.seq = u.seq) e
          WHERE ($5 IS NULL OR e.topic LIKE {schema}.like_pattern($5))
            AND ($6 IS NULL OR coalesce(e.type, e.topic) LIKE {schema}.like_pattern($6))
            AND ($7 IS NULL OR e.tenant LIKE {schema}.like_pattern($7))
            AND ($8 IS NULL OR e.aggregate_type LIKE {schema}.like_pattern($8))
            AND ($9 IS NULL OR e.aggregate_id LIKE {schema}.like_pattern($9))
            AND ($10 IS NULL
                 OR coalesce(e.key, e.aggregate_type || '/' || e.aggregate_id) LIKE {schema}.like_pattern($10))))
      ORDER BY u.destination, u.seq LIMIT $15
      FOR UPDATE OF u %s $q$, resting, manner)
    USING $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15;
    EXIT WHEN FOUND;
  END LOOP;
END $$;

-- Dead and held events are tried again, as if for the first time. Returns how many; 0: the operation is complete.
-- Expired events are redriven only if `standings` or `ids` name them; they are then delivered although they have expired.
CREATE FUNCTION {schema}.redrive(
  destination text, operation uuid DEFAULT NULL, by text DEFAULT NULL, standings text[] DEFAULT NULL,
  ids uuid[] DEFAULT NULL, topic text DEFAULT NULL, type text DEFAULT NULL, tenant text DEFAULT NULL,
  aggregate_type text DEFAULT NULL, aggregate_id text DEFAULT NULL, key text DEFAULT NULL, error text DEFAULT NULL,
  since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL, before_seq bigint DEFAULT NULL,
  most integer DEFAULT 1000)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  own_id uuid := coalesce(redrive.operation, {schema}.new_id());
  begun record;
  place tid;
  touched bigint := 0;
BEGIN
  begun := {schema}.begin_operation(own_id, 'redrive', redrive.by, redrive.destination, jsonb_build_object(
    'standings', redrive.standings, 'ids', redrive.ids, 'topic', redrive.topic, 'type', redrive.type,
    'tenant', redrive.tenant, 'aggregate_type', redrive.aggregate_type, 'aggregate_id', redrive.aggregate_id,
    'key', redrive.key, 'error', redrive.error, 'since', redrive.since, 'until', redrive.until));
  FOR place IN SELECT {schema}.lock_undelivered(
    redrive.destination, begun.begun_at, redrive.standings, redrive.ids, redrive.topic, redrive.type, redrive.tenant,
    redrive.aggregate_type, redrive.aggregate_id, redrive.key, redrive.error, redrive.since, redrive.until,
    redrive.before_seq, redrive.most)
  LOOP
    UPDATE {schema}.undelivered u
    SET standing = 'retrying', blocks = u.key <> 0, attempts = 0, crashes = 0, blamed = 0, sending = 0,
        redrives = u.redrives + 1, due = clock_timestamp(),
        ignore_expiry = u.ignore_expiry OR u.standing IN ('expired', 'expired_unknown')
    WHERE u.ctid = place;
    touched := touched + 1;
  END LOOP;
  UPDATE {schema}.operation o SET events = o.events + touched WHERE o.id = own_id AND touched > 0;
  RETURN touched;
END $$;

-- Dead and held events need not go; expired ones as with redrive(). Returns as redrive().
CREATE FUNCTION {schema}.dismiss(
  destination text, operation uuid DEFAULT NULL, by text DEFAULT NULL, standings text[] DEFAULT NULL,
  ids uuid[] DEFAULT NULL, topic text DEFAULT NULL, type text DEFAULT NULL, tenant text DEFAULT NULL,
  aggregate_type text DEFAULT NULL, aggregate_id text DEFAULT NULL, key text DEFAULT NULL, error text DEFAULT NULL,
  since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL, before_seq bigint DEFAULT NULL,
  most integer DEFAULT 1000)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  own_id uuid := coalesce(dismiss.operation, {schema}.new_id());
  begun record;
  place tid;
  touched bigint := 0;
BEGIN
  begun := {schema}.begin_operation(own_id, 'dismiss', dismiss.by, dismiss.destination, jsonb_build_object(
    'standings', dismiss.standings, 'ids', dismiss.ids, 'topic', dismiss.topic, 'type', dismiss.type,
    'tenant', dismiss.tenant, 'aggregate_type', dismiss.aggregate_type, 'aggregate_id', dismiss.aggregate_id,
    'key', dismiss.key, 'error', dismiss.error, 'since', dismiss.since, 'until', dismiss.until));
  FOR place IN SELECT {schema}.lock_undelivered(
    dismiss.destination, begun.begun_at, dismiss.standings, dismiss.ids, dismiss.topic, dismiss.type, dismiss.tenant,
    dismiss.aggregate_type, dismiss.aggregate_id, dismiss.key, dismiss.error, dismiss.since, dismiss.until,
    dismiss.before_seq, dismiss.most)
  LOOP
    UPDATE {schema}.undelivered u SET standing = 'dismissed', blocks = false
    WHERE u.ctid = place;
    touched := touched + 1;
  END LOOP;
  UPDATE {schema}.operation o SET events = o.events + touched WHERE o.id = own_id AND touched > 0;
  RETURN touched;
END $$;

-- In place of what a dead or held event says, from its next attempt on. The original is kept.
CREATE FUNCTION {schema}.edit(
  destination text, event uuid, payload json DEFAULT NULL, payload_bytes bytea DEFAULT NULL, headers json DEFAULT NULL,
  operation uuid DEFAULT NULL, by text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  own_id uuid := coalesce(edit.operation, {schema}.new_id());
  begun record;
  place record;
  is_json boolean;
BEGIN
  begun := {schema}.begin_operation(own_id, 'edit', edit.by, edit.destination,
    jsonb_build_object('event', edit.event, 'payload', coalesce(edit.payload::text, edit.payload_bytes::text) IS NOT NULL,
                       'headers', edit.headers IS NOT NULL));
  IF begun.repeated THEN
    RETURN;
  END IF;
  SELECT u.slot, u.shard, u.seq INTO place FROM {schema}.undelivered u
  WHERE u.destination = edit.destination AND u.id = edit.event
    AND u.standing IN ('dead', 'held', 'expired', 'expired_unknown') FOR UPDATE;
  IF NOT FOUND THEN
    RAISE invalid_parameter_value
      USING MESSAGE = format('event %s is neither dead, held nor expired at ''%s''', edit.event, edit.destination);
  END IF;
  SELECT e.is_json INTO is_json FROM (
    SELECT e.payload_bytes IS NULL AS is_json FROM {schema}.event e
    WHERE e.slot = place.slot AND e.shard = place.shard AND e.seq = place.seq
    UNION ALL
    SELECT k.payload_bytes IS NULL FROM {schema}.kept k WHERE k.shard = place.shard AND k.seq = place.seq) e LIMIT 1;
  IF is_json AND edit.payload_bytes IS NOT NULL THEN
    payload := convert_from(edit.payload_bytes, 'UTF8')::json;
    payload_bytes := NULL;
  ELSIF NOT is_json AND edit.payload IS NOT NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the event does not carry JSON: give payload_bytes';
  END IF;
  IF greatest(octet_length(payload::text), octet_length(payload_bytes)) > 786432 THEN
    RAISE invalid_parameter_value USING MESSAGE = 'payload must be at most 786432 bytes';
  END IF;
  IF edit.headers IS NOT NULL AND (octet_length(edit.headers::text) > 16384
     OR CASE WHEN json_typeof(edit.headers) <> 'object' THEN true ELSE NOT {schema}.are_headers(edit.headers) END) THEN
    RAISE invalid_parameter_value
      USING MESSAGE = 'headers must be a JSON object of strings, of at most 16384 bytes';
  END IF;
  UPDATE {schema}.undelivered u
  SET payload = coalesce(edit.payload, u.payload), payload_bytes = coalesce(edit.payload_bytes, u.payload_bytes),
      headers = coalesce(edit.headers, u.headers)
  WHERE u.destination = edit.destination AND u.shard = place.shard AND u.seq = place.seq;
  UPDATE {schema}.operation o SET events = 1 WHERE o.id = own_id;
END $$;

CREATE FUNCTION {schema}.pause(destination text, operation uuid DEFAULT NULL, by text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  begun record;
BEGIN
  begun := {schema}.begin_operation(coalesce(pause.operation, {schema}.new_id()), 'pause', pause.by, pause.destination, '{}');
  UPDATE {schema}.destination d SET paused = true WHERE d.name = pause.destination AND NOT begun.repeated;
END $$;

CREATE FUNCTION {schema}.resume(destination text, operation uuid DEFAULT NULL, by text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  begun record;
BEGIN
  begun := {schema}.begin_operation(coalesce(resume.operation, {schema}.new_id()), 'resume', resume.by,
    resume.destination, '{}');
  UPDATE {schema}.destination d SET paused = false WHERE d.name = resume.destination AND NOT begun.repeated;
END $$;

-- From which seq on events were written at that time or later; about, as seq grows with time.
CREATE FUNCTION {schema}.seq_at(earliest timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  low bigint := 0;
  high bigint := (SELECT s.last_value + 1 FROM {schema}.event_seq_seq s);
  middle bigint;
  written timestamptz;
BEGIN
  WHILE low < high LOOP
    middle := low + (high - low) / 2;
    SELECT min(f.created_at) INTO written
    FROM generate_series(0, (SELECT i.shards FROM {schema}.identity i) - 1) AS lane (shard)
    CROSS JOIN LATERAL (SELECT e.created_at FROM {schema}.event e
                        WHERE e.shard = lane.shard AND e.seq >= middle ORDER BY e.shard, e.seq LIMIT 1) f;
    IF written IS NULL OR written >= earliest THEN
      high := middle;
    ELSE
      low := middle + 1;
    END IF;
  END LOOP;
  RETURN low;
END $$;

-- Where the log has an event. It has no index on ids; but an id of version 7 names its time, and most are written then:
-- so it is looked for there first, and then everywhere.
CREATE FUNCTION {schema}.find_event(id uuid, OUT shard smallint, OUT seq bigint, OUT xid xid8)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  made timestamptz;
  low bigint := 0;
  high bigint := 9223372036854775807;
BEGIN
  IF substr(find_event.id::text, 15, 1) = '7' THEN
    made := to_timestamp(('x' || lpad(replace(left(find_event.id::text, 13), '-', ''), 16, '0'))::bit(64)::bigint / 1000.0);
    low := {schema}.seq_at(made - interval '10 minutes');
    high := {schema}.seq_at(made + interval '10 minutes');
  END IF;
  LOOP
    SELECT e.shard, e.seq, e.xid INTO shard, seq, xid
    FROM generate_series(0, (SELECT i.shards FROM {schema}.identity i) - 1) AS lane (shard)
    CROSS JOIN LATERAL (SELECT e.shard, e.seq, e.xid FROM {schema}.event e
                        WHERE e.shard = lane.shard AND e.seq BETWEEN low AND high AND e.id = find_event.id
                        ORDER BY e.shard, e.seq LIMIT 1) e
    LIMIT 1;
    EXIT WHEN FOUND OR (low = 0 AND high = 9223372036854775807);
    low := 0;
    high := 9223372036854775807;
  END LOOP;
END $$;

-- Events of a shard that the second place has settled and the first has not; `most` of them at most, and one. A place is
-- as in `cursor`.
CREATE FUNCTION {schema}.count_between(
  shard smallint, settled pg_snapshot, walking pg_snapshot, upto bigint,
  settled_then pg_snapshot, walking_then pg_snapshot, upto_then bigint, most bigint)
RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(*) FROM (
    SELECT FROM (
      (SELECT e.xid, e.seq FROM {schema}.event e
       WHERE e.shard = $1 AND e.xid >= pg_snapshot_xmax($2) AND e.xid < pg_snapshot_xmax(coalesce($6, $5))
       ORDER BY e.xid, e.seq)
      UNION ALL
      (SELECT late.xid, late.seq FROM pg_snapshot_xip($2) AS x (xid)
       CROSS JOIN LATERAL (SELECT e.xid, e.seq FROM {schema}.event e
                           WHERE e.shard = $1 AND e.xid = x.xid ORDER BY e.xid, e.seq) late)
    ) e
    WHERE NOT {schema}.is_settled(e.xid, e.seq, $2, $3, $4) AND {schema}.is_settled(e.xid, e.seq, $5, $6, $7)
    LIMIT $8 + 1) e
$$;

-- A destination goes on from an earlier place: with the first event committed at or after to_time, with to_event, or with
-- the first there is. Returns how many events will be published again. They go as if for the first time: what was
-- undelivered of them is so no longer, dead, held or edited as it may be. Relays that publish there begin anew.
CREATE FUNCTION {schema}.rewind(
  destination text, to_time timestamptz DEFAULT NULL, to_event uuid DEFAULT NULL, dry boolean DEFAULT true,
  operation uuid DEFAULT NULL, by text DEFAULT NULL, OUT events bigint, OUT exact boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  own_id uuid := coalesce(rewind.operation, {schema}.new_id());
  begun record;
  target record;
  end_id bigint;   -- Rows of the cursor from here on are later than to_time.
  end_hi xid8;     -- Rows above have settled the event.
  low bigint := 0;
  middle bigint;
  found_at timestamptz;
  lane record;
  place {schema}.cursor;
  present {schema}.cursor;
  counted bigint;
BEGIN
  dry := rewind.dry IS DISTINCT FROM false;
  events := 0;
  exact := true;
  IF rewind.to_event IS NOT NULL AND rewind.to_time IS NULL THEN
    target := {schema}.find_event(rewind.to_event);  -- Before anything is locked: it may take long.
  END IF;
  IF NOT rewind.dry THEN
    begun := {schema}.begin_operation(own_id, 'rewind', rewind.by, rewind.destination,
      jsonb_build_object('to_time', rewind.to_time, 'to_event', rewind.to_event));
    IF begun.repeated THEN
      events := begun.done;
      exact := false;
      RETURN;
    END IF;
    -- Waits for what relays are writing now; what they write later finds its term gone.
    PERFORM FROM {schema}.lease l WHERE l.destination = rewind.destination ORDER BY l.shard FOR UPDATE;
    UPDATE {schema}.lease l
    SET term = l.term + 1, owner = NULL, since = clock_timestamp(), crashes = 0, cursor = NULL,
        in_doubt_until = clock_timestamp()
    WHERE l.destination = rewind.destination;
  ELSIF NOT EXISTS (SELECT FROM {schema}.destination d WHERE d.name = rewind.destination) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('there is no destination ''%s''', rewind.destination);
  END IF;

  IF rewind.to_time IS NOT NULL THEN
    -- By halving. The clock of one row may be a little off that of the next: hence the seconds.
    SELECT coalesce(max(c.id), 0) + 1 INTO end_id FROM {schema}.cursor c WHERE c.destination = rewind.destination;
    WHILE low < end_id LOOP
      middle := low + (end_id - low) / 2;
      SELECT c.settled_at INTO found_at FROM {schema}.cursor c
      WHERE c.destination = rewind.destination AND c.id >= middle ORDER BY c.destination, c.id LIMIT 1;
      IF found_at IS NULL OR found_at > rewind.to_time + interval '10 s' THEN
        end_id := middle;
      ELSE
        low := middle + 1;
      END IF;
    END LOOP;
  ELSIF rewind.to_event IS NOT NULL THEN
    IF target.seq IS NULL THEN
      RAISE invalid_parameter_value USING MESSAGE = format('event %s is not in the log', rewind.to_event);
    END IF;
    SELECT c.hi INTO end_hi FROM {schema}.cursor c
    WHERE c.destination = rewind.destination AND c.hi > target.xid AND target.shard = ANY (c.shards)
      AND {schema}.is_settled(target.xid, target.seq, c.settled, c.walking, c.upto)
    ORDER BY c.destination, c.hi, c.id LIMIT 1;
  END IF;

  FOR lane IN SELECT l.shard FROM {schema}.lease l WHERE l.destination = rewind.destination ORDER BY l.shard LOOP
    SELECT c.* INTO present FROM {schema}.cursor c
    WHERE c.destination BETWEEN rewind.destination AND rewind.destination AND lane.shard = ANY (c.shards)
    ORDER BY c.destination DESC, c.id DESC LIMIT 1;
    CONTINUE WHEN NOT FOUND;
    place := NULL;
    IF rewind.to_time IS NOT NULL THEN
      SELECT c.* INTO place FROM {schema}.cursor c
      WHERE c.destination BETWEEN rewind.destination AND rewind.destination AND c.id < end_id
        AND c.settled_at <= rewind.to_time AND lane.shard = ANY (c.shards)
      ORDER BY c.destination DESC, c.id DESC LIMIT 1;
    ELSIF rewind.to_event IS NOT NULL THEN
      SELECT c.* INTO place FROM {schema}.cursor c
      WHERE c.destination = rewind.destination AND (end_hi IS NULL OR c.hi <= end_hi) AND lane.shard = ANY (c.shards)
        AND NOT {schema}.is_settled(target.xid, target.seq, c.settled, c.walking, c.upto)
      ORDER BY c.destination DESC, c.hi DESC, c.id DESC LIMIT 1;
    END IF;
    IF place.id IS NULL THEN
      place.settled := '3:3:';
      place.hi := '3';
    END IF;
    counted := {schema}.count_between(lane.shard, place.settled, place.walking, place.upto,
      present.settled, present.walking, present.upto, 10000);
    IF counted > 10000 THEN
      exact := false;
      SELECT greatest(counted, sum(c.count::numeric / cardinality(c.shards)))::bigint INTO counted FROM {schema}.cursor c
      WHERE c.destination = rewind.destination AND c.id > coalesce(place.id, 0) AND lane.shard = ANY (c.shards);
    END IF;
    events := events + counted;
    IF NOT rewind.dry AND counted > 0 THEN
      INSERT INTO {schema}.cursor (destination, shards, settled, walking, upto, floor, ceiling, hi, count)
      VALUES (rewind.destination, ARRAY[lane.shard], place.settled, place.walking, place.upto, place.floor,
              place.ceiling, place.hi, 0);
      DELETE FROM {schema}.undelivered u USING {schema}.event e
      WHERE u.destination = rewind.destination AND u.shard = lane.shard AND e.slot = u.slot AND e.shard = u.shard
        AND e.seq = u.seq AND NOT {schema}.is_settled(e.xid, e.seq, place.settled, place.walking, place.upto);
    END IF;
  END LOOP;
  UPDATE {schema}.operation o SET events = rewind.events WHERE o.id = own_id AND NOT rewind.dry;
END $$;

-- A destination that no relay serves any more: it holds the log back no longer. Returns how many events it would still
-- have been sent.
CREATE FUNCTION {schema}.forget(
  destination text, dry boolean DEFAULT true, operation uuid DEFAULT NULL, by text DEFAULT NULL,
  OUT events bigint, OUT exact boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  own_id uuid := coalesce(forget.operation, {schema}.new_id());
  begun record;
  lane record;
  counted bigint;
BEGIN
  dry := forget.dry IS DISTINCT FROM false;
  SELECT o.events INTO events FROM {schema}.operation o
  WHERE o.id = own_id AND o.kind = 'forget' AND o.destination = forget.destination AND NOT forget.dry;
  IF FOUND THEN
    exact := false;
    RETURN;
  END IF;
  IF NOT forget.dry THEN
    begun := {schema}.begin_operation(own_id, 'forget', forget.by, forget.destination, '{}');
    PERFORM FROM {schema}.lease l WHERE l.destination = forget.destination ORDER BY l.shard FOR UPDATE;
  ELSIF NOT EXISTS (SELECT FROM {schema}.destination d WHERE d.name = forget.destination) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('there is no destination ''%s''', forget.destination);
  END IF;
  IF EXISTS (SELECT FROM {schema}.relay r
             WHERE r.alive_until > clock_timestamp() AND forget.destination = ANY (r.destinations)) THEN
    RAISE invalid_parameter_value USING MESSAGE = format(
      'destination ''%s'' is served by a relay: take it out of the configuration first', forget.destination);
  END IF;
  SELECT count(*) INTO events FROM (
    SELECT FROM {schema}.undelivered u
    WHERE u.destination = forget.destination AND u.standing IN ('retrying', 'blocked', 'scheduled', 'held')
    LIMIT 10001) u;
  exact := events <= 10000;
  FOR lane IN
    SELECT p.* FROM {schema}.place p WHERE p.destination = forget.destination
  LOOP
    counted := {schema}.count_between(lane.shard, lane.settled, lane.walking, lane.upto,
      pg_current_snapshot(), NULL, NULL, 10000);
    events := events + counted;
    exact := exact AND counted <= 10000;
  END LOOP;
  IF forget.dry THEN
    RETURN;
  END IF;
  DELETE FROM {schema}.undelivered u WHERE u.destination = forget.destination;
  DELETE FROM {schema}.attempt a WHERE a.destination = forget.destination;
  DELETE FROM {schema}.cursor c WHERE c.destination = forget.destination;
  DELETE FROM {schema}.rules r WHERE r.destination = forget.destination;
  DELETE FROM {schema}.destination d WHERE d.name = forget.destination;
  UPDATE {schema}.operation o SET events = forget.events WHERE o.id = own_id;
END $$;
