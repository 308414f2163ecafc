-- What the library keeps beside the outbox, in the application's own file and so in the same transactions: streams,
-- snapshots, the inbox, idempotency keys, projections. oldest_program: 1

-- The event store: what happened to each aggregate, for good. Its limits are those of the log, in which an event is
-- written next. One writes at a time, so positions are in the order of commits: a number is a place to go on from.
CREATE TABLE waybill_stream_event (
  position       INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant         TEXT NOT NULL,
  aggregate_type TEXT NOT NULL,
  aggregate_id   TEXT NOT NULL,
  version        INTEGER NOT NULL,
  id             TEXT NOT NULL,
  topic          TEXT NOT NULL,
  type           TEXT NOT NULL,
  payload        TEXT,
  payload_bytes  BLOB,
  metadata       TEXT,
  schema_id      TEXT,
  schema_version INTEGER,
  occurred_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  recorded_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (tenant, aggregate_type, aggregate_id, version)
);

-- The newest snapshot of a stream.
CREATE TABLE waybill_snapshot (
  tenant         TEXT NOT NULL,
  aggregate_type TEXT NOT NULL,
  aggregate_id   TEXT NOT NULL,
  version        INTEGER NOT NULL,
  state          BLOB NOT NULL,
  schema_version INTEGER NOT NULL,
  taken_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (tenant, aggregate_type, aggregate_id)
) WITHOUT ROWID;

-- What each consumer has handled.
CREATE TABLE waybill_inbox (
  tenant     TEXT NOT NULL DEFAULT 'default' CHECK (length(CAST(tenant AS BLOB)) BETWEEN 1 AND 255),
  consumer   TEXT NOT NULL CHECK (length(CAST(consumer AS BLOB)) BETWEEN 1 AND 255),
  message_id TEXT NOT NULL CHECK (length(CAST(message_id AS BLOB)) BETWEEN 1 AND 512),
  handled_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (tenant, consumer, message_id)
) WITHOUT ROWID;
CREATE INDEX waybill_inbox_age ON waybill_inbox (handled_at);

-- The answers to requests that may come again. One of 500 or more is none: what it is about is rolled back.
CREATE TABLE waybill_idempotency (
  tenant       TEXT NOT NULL DEFAULT 'default' CHECK (length(CAST(tenant AS BLOB)) BETWEEN 1 AND 255),
  key          TEXT NOT NULL CHECK (length(CAST(key AS BLOB)) BETWEEN 1 AND 255),
  fingerprint  TEXT NOT NULL CHECK (length(CAST(fingerprint AS BLOB)) BETWEEN 1 AND 255),
  status       INTEGER NOT NULL CHECK (status BETWEEN 100 AND 499),
  content_type TEXT NOT NULL CHECK (length(CAST(content_type AS BLOB)) <= 255),
  body         BLOB NOT NULL CHECK (length(CAST(body AS BLOB)) <= 1048576),
  answered_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  expires_at   TEXT NOT NULL,
  PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
CREATE INDEX waybill_idempotency_expiry ON waybill_idempotency (expires_at);

-- How far each projection is: all up to the position `upto` is handled. No `upto`: it is fed with events from elsewhere.
-- made: its tables and views, in the order in which they were made, as a JSON array of [type, name].
CREATE TABLE waybill_projection (
  name       TEXT PRIMARY KEY,
  version    INTEGER NOT NULL,
  upto       INTEGER,
  handled    INTEGER NOT NULL DEFAULT 0,
  made       TEXT NOT NULL DEFAULT '[]',
  made_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  changed_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) WITHOUT ROWID;
