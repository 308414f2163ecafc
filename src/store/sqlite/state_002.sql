-- What could not be delivered, what people do about it, and which log this file belongs to.

-- A rewind begins a new turn: within one, seq only grows. The newest row of the highest turn counts.
ALTER TABLE cursor RENAME TO cursor_1;
CREATE TABLE cursor (
  destination TEXT NOT NULL,
  turn        INTEGER NOT NULL,
  seq         INTEGER NOT NULL,  -- Everything up to here is settled.
  id          TEXT,              -- Of that event: another one in its place means that the log was replaced.
  settled_at  TEXT NOT NULL,
  count       INTEGER NOT NULL,  -- Events settled by this row.
  rules       INTEGER,           -- By which of `rules`; none: the beginning of a turn, which passes nothing.
  PRIMARY KEY (destination, turn, seq)
) WITHOUT ROWID;
INSERT INTO cursor (destination, turn, seq, settled_at, count)
SELECT destination, 1, seq, settled_at, count FROM cursor_1;
DROP TABLE cursor_1;

-- Which events a destination was served with: a row whenever a relay came with other rules than the newest row has.
CREATE TABLE rules (
  destination TEXT NOT NULL,
  id          INTEGER NOT NULL,  -- 1, 2, ... at each destination
  match       TEXT NOT NULL,     -- as in the configuration, as JSON; {}: every event
  since       TEXT NOT NULL,
  PRIMARY KEY (destination, id)
) WITHOUT ROWID;

CREATE TABLE destination (
  name           TEXT PRIMARY KEY,
  paused         INTEGER NOT NULL DEFAULT 0,
  changes        INTEGER NOT NULL DEFAULT 0,  -- Higher whenever a person has changed something.
  -- The lease. An owner that is not the relay at work has died: one that ends cleanly gives it back.
  term           INTEGER NOT NULL DEFAULT 0,
  owner          TEXT NOT NULL DEFAULT '',
  crashes        INTEGER NOT NULL DEFAULT 0,  -- Owners in a row that have died here without getting anywhere.
  seq_when_taken INTEGER NOT NULL DEFAULT 0,
  -- What was written until then and is not settled may have been sent before.
  in_doubt_until TEXT
) WITHOUT ROWID;
INSERT INTO destination (name) SELECT DISTINCT destination FROM cursor;

ALTER TABLE relay ADD COLUMN troubles TEXT NOT NULL DEFAULT '[]';  -- JSON array of [destination, text]
ALTER TABLE relay ADD COLUMN rules TEXT NOT NULL DEFAULT '{}';     -- JSON object: destination -> match

CREATE TABLE undelivered (
  destination TEXT NOT NULL,
  seq         INTEGER NOT NULL,
  id          TEXT NOT NULL,
  key         INTEGER NOT NULL,  -- A hash; 0: none.
  standing    TEXT NOT NULL,
  blocks      INTEGER NOT NULL,
  attempts    INTEGER NOT NULL,
  crashes     INTEGER NOT NULL,            -- Attempts in a row that their relays did not survive;
  blamed      INTEGER NOT NULL DEFAULT 0,  -- of these, those that count against the event.
  sending     INTEGER NOT NULL,
  due         INTEGER NOT NULL,  -- microseconds since 1970
  since       TEXT NOT NULL,     -- when it came here; of what has ended or is held, then
  changed_at  TEXT NOT NULL,
  error       TEXT NOT NULL,
  in_doubt    INTEGER NOT NULL DEFAULT 0,    -- An attempt at it may have arrived.
  ignore_expiry INTEGER NOT NULL DEFAULT 0,  -- redriven after it had expired: it goes all the same
  redrives    INTEGER NOT NULL DEFAULT 0,
  payload     BLOB,              -- in place of what the event says
  headers     TEXT,
  PRIMARY KEY (destination, seq)
) WITHOUT ROWID;
CREATE INDEX undelivered_key ON undelivered (destination, key, seq) WHERE blocks;
CREATE INDEX undelivered_due ON undelivered (destination, due)
  WHERE key = 0 AND standing IN ('retrying', 'blocked', 'scheduled');
CREATE INDEX undelivered_standing ON undelivered (destination, standing);
CREATE INDEX undelivered_ended ON undelivered (changed_at)
  WHERE standing IN ('dead', 'dismissed', 'expired', 'expired_unknown') AND NOT blocks;
CREATE INDEX undelivered_seq ON undelivered (seq);

CREATE TABLE attempt (
  entry       INTEGER PRIMARY KEY,
  destination TEXT NOT NULL,
  seq         INTEGER NOT NULL,
  number      INTEGER NOT NULL,
  at          TEXT NOT NULL,
  outcome     TEXT NOT NULL,
  error       TEXT NOT NULL
);
CREATE INDEX attempt_seq ON attempt (destination, seq);

CREATE TABLE operation (
  entry       INTEGER PRIMARY KEY AUTOINCREMENT,
  id          TEXT NOT NULL UNIQUE,
  kind        TEXT NOT NULL,
  by          TEXT NOT NULL,
  destination TEXT NOT NULL,
  details     TEXT NOT NULL,
  events      INTEGER NOT NULL DEFAULT 0,
  at          TEXT NOT NULL
);

-- Events that clean has taken out of the log while somebody still waited for them; as they were there.
CREATE TABLE kept (
  seq            INTEGER PRIMARY KEY,
  id             TEXT, tenant TEXT, topic TEXT, type TEXT, aggregate_type TEXT, aggregate_id TEXT, version INTEGER,
  key            TEXT, payload TEXT, payload_bytes BLOB, content_type TEXT, metadata TEXT, headers TEXT,
  routing_key    TEXT, schema_id TEXT, schema_version INTEGER, occurred_at TEXT, not_before TEXT, expires_at TEXT,
  attempts_max   INTEGER, dedup_key TEXT, created_at TEXT
);

CREATE TABLE identity (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  log_id    TEXT NOT NULL,     -- as in the log
  state_id  TEXT NOT NULL,     -- ours, and as in the log
  log_inode INTEGER NOT NULL   -- A copy of the log is another file.
);

-- A batch of events on its way from the log to an archive: it is there from `size` on if `first_seq` is gone from the log.
CREATE TABLE archiving (
  one       INTEGER PRIMARY KEY CHECK (one = 1),
  file      TEXT NOT NULL,
  size      INTEGER NOT NULL,
  first_seq INTEGER NOT NULL
);
