-- The log and what the relays keep about it. oldest_program: 1
--
-- {schema}, {shards} and {slot_seconds} are filled in by migrate. Events are never updated: they are written by
-- applications, read by relays, and emptied out slot by slot.

-- What runs as part of an application's own INSERT finds functions and operators by the application's search_path, on
-- which may be others of the same name: so new_id(), shard_of() and admit() name everything in full. (To SET search_path
-- does the same, and takes 1.2 of the 2.8 microseconds that admit() would then take.)

-- A UUID of version 7 (RFC 9562): milliseconds since 1970, then random.
CREATE FUNCTION {schema}.new_id() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
  SELECT pg_catalog.encode(pg_catalog.set_bit(pg_catalog.set_bit(
           overlay(pg_catalog.uuid_send(pg_catalog.gen_random_uuid())
             PLACING substring(pg_catalog.int8send(
                       (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)::bigint)
                     FROM 3)
             FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::pg_catalog.uuid
$$;

-- Which shard a key belongs to; an event without key and aggregate is its own key. Fixed for ever: another number of
-- shards would split keys and make every cursor worthless.
CREATE FUNCTION {schema}.shard_of(tenant text, key text, aggregate_type text, aggregate_id text, id uuid)
RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT ((coalesce(pg_catalog.hashtextextended(
                      coalesce(key, pg_catalog.textcat(pg_catalog.textcat(aggregate_type, '/'), aggregate_id)),
                      pg_catalog.hashtextextended(tenant, 0)),
                    pg_catalog.uuid_hash_extended(id, 0))
           OPERATOR(pg_catalog.&) 9223372036854775807) OPERATOR(pg_catalog.%) {shards})::smallint
$$;

CREATE TABLE {schema}.event (
  -- The store's own columns. Applications cannot write them.
  -- In this order: whoever draws a seq has a transaction number already. So all events of transactions that begin after
  -- some moment have a seq above the last one drawn until then.
  xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
  seq            bigint NOT NULL GENERATED ALWAYS AS IDENTITY (CACHE 1),
  slot           smallint NOT NULL
                   DEFAULT ((date_part('epoch', clock_timestamp())::bigint / {slot_seconds}) % 8)::smallint,
  shard          smallint NOT NULL,  -- shard_of() the key; by admit()
  octets         integer NOT NULL,   -- of the payload; by admit()
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Wakes a relay, if all of them sleep: a relay that sleeps holds this lock alone, so whoever gets a share of it knows
  -- that somebody is awake, and sends nothing.
  woke           boolean NOT NULL DEFAULT (
                   CASE WHEN pg_try_advisory_xact_lock_shared(hashtextextended('{schema} wake', 0)) THEN false
                        ELSE pg_notify('{schema}_news', '') IS NOT NULL END),

  -- The contract. Only topic and one of the payloads are required; admit() holds them to their limits.
  id             uuid NOT NULL DEFAULT {schema}.new_id(),
  tenant         text NOT NULL DEFAULT 'default',
  topic          text NOT NULL,
  type           text,
  aggregate_type text,
  aggregate_id   text,
  version        bigint,
  key            text,
  payload        json,
  payload_bytes  bytea,
  content_type   text,
  metadata       json,
  headers        json,
  routing_key    text,
  schema_id      text,
  schema_version integer,
  occurred_at    timestamptz,
  not_before     timestamptz,
  expires_at     timestamptz,
  attempts_max   integer,
  dedup_key      text
) PARTITION BY LIST (slot);

CREATE TABLE {schema}.event_0 PARTITION OF {schema}.event FOR VALUES IN (0);
CREATE TABLE {schema}.event_1 PARTITION OF {schema}.event FOR VALUES IN (1);
CREATE TABLE {schema}.event_2 PARTITION OF {schema}.event FOR VALUES IN (2);
CREATE TABLE {schema}.event_3 PARTITION OF {schema}.event FOR VALUES IN (3);
CREATE TABLE {schema}.event_4 PARTITION OF {schema}.event FOR VALUES IN (4);
CREATE TABLE {schema}.event_5 PARTITION OF {schema}.event FOR VALUES IN (5);
CREATE TABLE {schema}.event_6 PARTITION OF {schema}.event FOR VALUES IN (6);
CREATE TABLE {schema}.event_7 PARTITION OF {schema}.event FOR VALUES IN (7);

-- Exactly these two: with others the planner finds ways that cost a hundred times as much.
CREATE INDEX event_by_xid ON {schema}.event (xid, shard, seq);
CREATE INDEX event_by_seq ON {schema}.event (shard, seq);

-- The first event of each dedup key. A later one with the same key is not written.
CREATE TABLE {schema}.dedup (
  tenant     text NOT NULL,
  key        text NOT NULL,
  id         uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (tenant, key)
);

-- Whose an event is that names this tenant. In a transaction of one tenant (waybill.tenant, by SET LOCAL; or the user's own
-- setting) it is that one's: 'default' is to name none, and another's is refused.
CREATE FUNCTION {schema}.tenant_of(named text) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  own text := nullif(current_setting('waybill.tenant', true), '');
BEGIN
  IF own IS NULL THEN
    RETURN coalesce(named, 'default');
  ELSIF named <> own AND named <> 'default' THEN
    RAISE insufficient_privilege USING MESSAGE = format(
      'this is a transaction of tenant %L (waybill.tenant), who can have nothing to do with tenant %L', own, named);
  END IF;
  RETURN own;
END $$;

-- Can a message carry these headers, whatever its envelope? REQUIRES: a JSON object
CREATE FUNCTION {schema}.are_headers(headers json) RETURNS boolean LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(count(*) = count(DISTINCT h.key) AND bool_and(
    json_typeof(h.value) = 'string' AND octet_length(h.key) BETWEEN 1 AND 255
    AND concat(h.key, h.value #>> '{}') !~ E'[\\x01-\\x1f\\x7f-\\x9f]'), true)
  FROM json_each(are_headers.headers) h
$$;

-- Admits an event to the log: fills in what follows from it, holds it to the limits, and drops it if its dedup key was
-- used before. In one trigger, because generated columns and CHECK constraints are parsed and planned again by every
-- statement: they took 75 of the 130 microseconds that the server spent on an INSERT of one event, this takes some 15.
-- With its owner's rights, so that nobody else can use up a dedup key; and nobody's to make a trigger of, see grants.sql.
CREATE FUNCTION {schema}.admit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  NEW.shard := {schema}.shard_of(NEW.tenant, NEW.key, NEW.aggregate_type, NEW.aggregate_id, NEW.id);
  NEW.octets := coalesce(pg_catalog.octet_length(NEW.payload::pg_catalog.text),
                         pg_catalog.octet_length(NEW.payload_bytes), 0);
  -- PL/pgSQL makes an expression ready anew in every transaction, which costs more than to evaluate it. So first a short
  -- one, which is true of whatever breaks a limit and of little else: an array takes 28 bytes more than the longest text
  -- in it, at least, and an empty text is replaced there by one that is too long. Headers are spelled {"name": "value", …}
  -- and have no backslash in them.
  IF (NEW.payload IS NULL) OPERATOR(pg_catalog.=) (NEW.payload_bytes IS NULL)
     OR (NEW.aggregate_type IS NULL) OPERATOR(pg_catalog.<>) (NEW.aggregate_id IS NULL)
     OR NEW.tenant OPERATOR(pg_catalog.<>) pg_catalog.current_setting('waybill.tenant', true)
     OR NEW.octets OPERATOR(pg_catalog.>) 786432
     OR NEW.attempts_max IS NOT NULL
     OR NEW.not_before IS NOT NULL
     OR pg_catalog.json_typeof(NEW.metadata) OPERATOR(pg_catalog.<>) 'object'
     OR pg_catalog.octet_length(NEW.headers::pg_catalog.text) OPERATOR(pg_catalog.>) 255
     OR NEW.headers::pg_catalog.text OPERATOR(pg_catalog.~) E'^\\s*[^{\\s]|"\\s*:\\s*[^"\\s]|""\\s*:|[\\\\\\x7f-\\x9f]'
     OR pg_catalog.pg_column_size(ARRAY[NEW.metadata, NEW.headers]) OPERATOR(pg_catalog.>) 16384
     OR pg_catalog.pg_column_size(pg_catalog.array_replace(
          ARRAY[NEW.tenant, NEW.topic, NEW.type, NEW.aggregate_type, NEW.aggregate_id, NEW.key, NEW.content_type,
                NEW.routing_key, NEW.schema_id, NEW.dedup_key], '', pg_catalog.repeat('-', 256)))
          OPERATOR(pg_catalog.>) 283 THEN
    IF NEW.tenant OPERATOR(pg_catalog.<>) pg_catalog.current_setting('waybill.tenant', true) THEN
      NEW.tenant := {schema}.tenant_of(NEW.tenant);
      NEW.shard := {schema}.shard_of(NEW.tenant, NEW.key, NEW.aggregate_type, NEW.aggregate_id, NEW.id);
    END IF;
    IF (NEW.payload IS NULL) OPERATOR(pg_catalog.=) (NEW.payload_bytes IS NULL) THEN
      RAISE check_violation USING MESSAGE = 'exactly one of payload and payload_bytes must be given';
    ELSIF (NEW.aggregate_type IS NULL) OPERATOR(pg_catalog.<>) (NEW.aggregate_id IS NULL) THEN
      RAISE check_violation USING MESSAGE = 'aggregate_type and aggregate_id go together';
    ELSIF NEW.octets OPERATOR(pg_catalog.>) 786432 THEN
      RAISE check_violation USING MESSAGE = 'payload must be at most 786432 bytes';
    ELSIF pg_catalog.json_typeof(NEW.metadata) OPERATOR(pg_catalog.<>) 'object'
          OR pg_catalog.octet_length(NEW.metadata::pg_catalog.text) OPERATOR(pg_catalog.>) 65536 THEN
      RAISE check_violation USING MESSAGE = 'metadata must be a JSON object of at most 65536 bytes';
    ELSIF pg_catalog.json_typeof(NEW.headers) OPERATOR(pg_catalog.<>) 'object'
          OR pg_catalog.octet_length(NEW.headers::pg_catalog.text) OPERATOR(pg_catalog.>) 16384 THEN
      RAISE check_violation USING MESSAGE = 'headers must be a JSON object of at most 16384 bytes';
    ELSIF NOT {schema}.are_headers(NEW.headers) THEN
      RAISE check_violation USING MESSAGE =
        'headers must be strings without control characters, and their names have 1 to 255 bytes and come once';
    ELSIF NEW.attempts_max OPERATOR(pg_catalog.<) 1 OR NEW.attempts_max OPERATOR(pg_catalog.>) 1000 THEN
      RAISE check_violation USING MESSAGE = 'attempts_max must be between 1 and 1000';
    ELSIF NEW.not_before OPERATOR(pg_catalog.>) (NEW.created_at OPERATOR(pg_catalog.+) '366 days'::pg_catalog.interval) THEN
      RAISE check_violation USING MESSAGE = 'not_before must be at most 366 days ahead';
    ELSIF least(pg_catalog.octet_length(NEW.tenant), pg_catalog.octet_length(NEW.topic),
                pg_catalog.octet_length(NEW.type), pg_catalog.octet_length(NEW.aggregate_type),
                pg_catalog.octet_length(NEW.aggregate_id), pg_catalog.octet_length(NEW.key),
                pg_catalog.octet_length(NEW.content_type), pg_catalog.octet_length(NEW.routing_key),
                pg_catalog.octet_length(NEW.schema_id), pg_catalog.octet_length(NEW.dedup_key)) OPERATOR(pg_catalog.<) 1
          OR greatest(pg_catalog.octet_length(NEW.tenant), pg_catalog.octet_length(NEW.topic),
                      pg_catalog.octet_length(NEW.type), pg_catalog.octet_length(NEW.aggregate_type),
                      pg_catalog.octet_length(NEW.content_type), pg_catalog.octet_length(NEW.routing_key),
                      pg_catalog.octet_length(NEW.schema_id)) OPERATOR(pg_catalog.>) 255
          OR greatest(pg_catalog.octet_length(NEW.aggregate_id), pg_catalog.octet_length(NEW.key),
                      pg_catalog.octet_length(NEW.dedup_key)) OPERATOR(pg_catalog.>) 512 THEN
      RAISE check_violation USING MESSAGE = (
        SELECT pg_catalog.format('%s must have 1 to %s bytes', name, most)
        FROM (VALUES ('tenant', NEW.tenant, 255), ('topic', NEW.topic, 255), ('type', NEW.type, 255),
                     ('aggregate_type', NEW.aggregate_type, 255), ('aggregate_id', NEW.aggregate_id, 512),
                     ('key', NEW.key, 512), ('content_type', NEW.content_type, 255),
                     ('routing_key', NEW.routing_key, 255), ('schema_id', NEW.schema_id, 255),
                     ('dedup_key', NEW.dedup_key, 512)) AS field (name, value, most)
        WHERE pg_catalog.octet_length(value) OPERATOR(pg_catalog.<) 1
           OR pg_catalog.octet_length(value) OPERATOR(pg_catalog.>) most LIMIT 1);
    END IF;
  END IF;
  IF NEW.dedup_key IS NOT NULL THEN
    INSERT INTO {schema}.dedup (tenant, key, id) VALUES (NEW.tenant, NEW.dedup_key, NEW.id) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      RETURN NULL;
    END IF;
  END IF;
  RETURN NEW;
END $$;

-- Enqueued events come without a shard: applications cannot write that column. A row that has one was admitted before and
-- is being restored by the owner of the tables (pg_dump --data-only): it is stored as it is, whether or not its dedup key
-- has been restored already.
CREATE TRIGGER admit BEFORE INSERT ON {schema}.event FOR EACH ROW WHEN (NEW.shard IS NULL)
  EXECUTE FUNCTION {schema}.admit();

-- The id of the event that used a dedup key first, for one who has just been refused it.
CREATE FUNCTION {schema}.first_id(tenant text, dedup_key text) RETURNS uuid LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT id FROM {schema}.dedup d WHERE d.tenant = {schema}.tenant_of(first_id.tenant) AND d.key = first_id.dedup_key
$$;

-- Enqueues an event in the current transaction; returns its id, or that of the first with the same dedup key.
-- serialize: events of one key then follow the order of the transactions' first enqueue, by a lock until their end.
CREATE FUNCTION {schema}.enqueue(
  topic text, payload json DEFAULT NULL, type text DEFAULT NULL, aggregate_type text DEFAULT NULL,
  aggregate_id text DEFAULT NULL, version bigint DEFAULT NULL, key text DEFAULT NULL, payload_bytes bytea DEFAULT NULL,
  content_type text DEFAULT NULL, metadata json DEFAULT NULL, headers json DEFAULT NULL, routing_key text DEFAULT NULL,
  schema_id text DEFAULT NULL, schema_version integer DEFAULT NULL, occurred_at timestamptz DEFAULT NULL,
  not_before timestamptz DEFAULT NULL, expires_at timestamptz DEFAULT NULL, attempts_max integer DEFAULT NULL,
  dedup_key text DEFAULT NULL, tenant text DEFAULT 'default', id uuid DEFAULT NULL, serialize boolean DEFAULT false)
RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  own_id uuid := coalesce(enqueue.id, {schema}.new_id());
BEGIN
  IF enqueue.serialize THEN
    PERFORM pg_advisory_xact_lock(hashtextextended(
      coalesce(enqueue.key, enqueue.aggregate_type || '/' || enqueue.aggregate_id, own_id::text),
      hashtextextended({schema}.tenant_of(enqueue.tenant), 1)));
  END IF;
  INSERT INTO {schema}.event (id, tenant, topic, type, aggregate_type, aggregate_id, version, key, payload,
    payload_bytes, content_type, metadata, headers, routing_key, schema_id, schema_version, occurred_at, not_before,
    expires_at, attempts_max, dedup_key)
  VALUES (own_id, enqueue.tenant, enqueue.topic, enqueue.type, enqueue.aggregate_type, enqueue.aggregate_id,
    enqueue.version, enqueue.key, enqueue.payload, enqueue.payload_bytes, enqueue.content_type, enqueue.metadata,
    enqueue.headers, enqueue.routing_key, enqueue.schema_id, enqueue.schema_version, enqueue.occurred_at,
    enqueue.not_before, enqueue.expires_at, enqueue.attempts_max, enqueue.dedup_key);
  IF NOT FOUND THEN
    RETURN {schema}.first_id(enqueue.tenant, enqueue.dedup_key);
  END IF;
  RETURN own_id;
END $$;

-- The log's histories. Another one begins wherever transaction numbers may mean something else than before: a standby was
-- promoted, rows were copied. A place that a reader keeps names the history it is of, and is good in a later one if that
-- has all that was read by then. `followed` tells: a reader's commit writes the end of its snapshot there, or a later one,
-- before it hands anything out.
CREATE TABLE {schema}.history (
  id       text PRIMARY KEY DEFAULT substr(replace(gen_random_uuid()::text, '-', ''), 1, 10),
  began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  followed xid8 NOT NULL DEFAULT '3'
) WITH (fillfactor = 10);
INSERT INTO {schema}.history DEFAULT VALUES;

-- Whose log this is. Checked on every connection: transaction numbers of another cluster mean nothing here.
CREATE TABLE {schema}.identity (
  one               boolean PRIMARY KEY DEFAULT true CHECK (one),
  system_identifier bigint NOT NULL,
  database          oid NOT NULL,
  shards            smallint NOT NULL,
  slot_seconds      bigint NOT NULL,
  history           text NOT NULL
);
INSERT INTO {schema}.identity (system_identifier, database, shards, slot_seconds, history)
SELECT s.system_identifier, d.oid, {shards}, {slot_seconds}, h.id
FROM pg_control_system() s, pg_database d, {schema}.history h WHERE d.datname = current_database();

CREATE TABLE {schema}.destination (
  name       text PRIMARY KEY,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row for each relay, renewed once a second. A lease is free when its owner's time has run out.
CREATE TABLE {schema}.relay (
  id           text PRIMARY KEY,
  name         text NOT NULL,
  alive_until  timestamptz NOT NULL,
  last_seen    timestamptz NOT NULL,
  destinations text[] NOT NULL,
  troubles     json NOT NULL DEFAULT '[]',  -- what it has found to be wrong: [[destination, text], …]
  rules        json NOT NULL DEFAULT '{}'   -- destination -> its match; written once
) WITH (fillfactor = 40);

-- Written only when a shard changes hands. The unique index over the term makes a change of hands an update of a key,
-- which waits for every transaction that holds the row FOR KEY SHARE: that is the fence.
CREATE TABLE {schema}.lease (
  destination text NOT NULL REFERENCES {schema}.destination (name) ON DELETE CASCADE,
  shard       smallint NOT NULL,
  term        bigint NOT NULL DEFAULT 0,
  owner       text,
  since       timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (destination, shard),
  UNIQUE (destination, shard, term)
) WITH (fillfactor = 40);

-- Which events a destination was served with: a row whenever a relay came with other rules than the newest row has.
CREATE TABLE {schema}.rules (
  destination text NOT NULL,
  id          integer NOT NULL,  -- 1, 2, … at each destination
  match       json NOT NULL,     -- as in the configuration, without empty lists; {}: every event
  since       timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (destination, id)
);

-- How far each destination is, appended, never updated: the newest row of a shard counts, the older ones tell when.
-- An event is settled if it is visible in `settled`, or visible in `walking` with a seq up to `upto`.
CREATE TABLE {schema}.cursor (
  id          bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (CACHE 1),
  destination text NOT NULL,
  shards      smallint[] NOT NULL,
  settled     pg_snapshot NOT NULL,
  walking     pg_snapshot,
  upto        bigint,
  floor       bigint,
  ceiling     bigint,
  hi          xid8 NOT NULL,  -- the end of `walking`, or else of `settled`
  count       bigint NOT NULL,
  settled_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  rules       integer,        -- by which of `rules` events were passed; null: a beginning or a rewind, which passes none
  CHECK ((walking IS NULL) = (upto IS NULL))
);
CREATE INDEX cursor_newest ON {schema}.cursor (destination, id);
CREATE INDEX cursor_by_hi ON {schema}.cursor (destination, hi, id);
CREATE INDEX cursor_begins ON {schema}.cursor (destination, id) WHERE rules IS NULL;

-- Is an event settled at such a place? (With names in full, and no search_path of its own: so the planner can put it into
-- the statements that call it.)
CREATE FUNCTION {schema}.is_settled(xid xid8, seq bigint, settled pg_snapshot, walking pg_snapshot, upto bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT pg_catalog.pg_visible_in_snapshot(xid, settled)
      OR (walking IS NOT NULL AND seq OPERATOR(pg_catalog.<=) upto AND pg_catalog.pg_visible_in_snapshot(xid, walking))
$$;

-- Makes the caller's commit reach the disk, and with it all that he has seen: a lock on a row is written to the server's
-- log. With its owner's rights: to lock a row takes the right to change it. And notes how far was read (see `history`), unless
-- another reader holds that row: flush() never waits. A place that was not noted may be refused after a fail-over.
CREATE FUNCTION {schema}.flush() RETURNS void LANGUAGE sql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  UPDATE {schema}.history h SET followed = pg_snapshot_xmax(pg_current_snapshot())
  WHERE h.id = (SELECT o.id FROM {schema}.history o JOIN {schema}.identity i ON i.history = o.id
                WHERE o.followed < pg_snapshot_xmax(pg_current_snapshot()) FOR NO KEY UPDATE OF o SKIP LOCKED);
  SELECT FROM {schema}.identity FOR KEY SHARE
$$;
