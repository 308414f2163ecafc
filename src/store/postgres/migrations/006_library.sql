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
  tenant     text COLLATE "C" NOT NULL,
  consumer   text COLLATE "C" NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  handled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (tenant, consumer, message_id)
);
CREATE INDEX inbox_by_age ON {schema}.inbox (handled_at);

-- The answers to requests that may come again.
CREATE TABLE {schema}.idempotency (
  tenant       text COLLATE "C" NOT NULL,
  key          text COLLATE "C" NOT NULL,
  fingerprint  text NOT NULL,
  status       integer NOT NULL,
  content_type text NOT NULL,
  body         bytea NOT NULL,
  answered_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at   timestamptz NOT NULL,
  PRIMARY KEY (tenant, key)
);
CREATE INDEX idempotency_by_expiry ON {schema}.idempotency (expires_at);

-- How far each projection is: all that is visible in `settled` is handled, and of what is visible in `walking` that up to
-- the position `upto`.
CREATE TABLE {schema}.projection (
  name       text PRIMARY KEY,
  settled    pg_snapshot NOT NULL,
  walking    pg_snapshot,
  upto       bigint,
  handled    bigint NOT NULL DEFAULT 0,
  made_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK ((walking IS NULL) = (upto IS NULL))
) WITH (fillfactor = 40);
