-- The log, in the application's own database file. oldest_program: 1
--
-- An application writes topic and payload, and what else it likes of the columns up to dedup_key. AUTOINCREMENT is a
-- must: without it numbers come again after a clean-up, and the relay would take new events for old ones.
CREATE TABLE waybill_event (
  seq            INTEGER PRIMARY KEY AUTOINCREMENT,
  -- A UUID of version 7: milliseconds since 1970, then random.
  id             TEXT NOT NULL DEFAULT (
                   lower(printf('%08x-%04x-7%03x-%04x-%012x',
                     (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) >> 16),
                     (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) & 65535),
                     (random() & 4095), 32768 | (random() & 16383), (random() & 281474976710655))))
                   CONSTRAINT "id must be a UUID"
                   CHECK (length(id) = 36 AND id GLOB '????????-????-????-????-????????????'
                          AND replace(id, '-', '') NOT GLOB '*[^0-9A-Fa-f]*' AND length(replace(id, '-', '')) = 32),
  tenant         TEXT NOT NULL DEFAULT 'default' CHECK (length(CAST(tenant AS BLOB)) BETWEEN 1 AND 255),
  topic          TEXT NOT NULL CHECK (length(CAST(topic AS BLOB)) BETWEEN 1 AND 255),
  type           TEXT CHECK (length(CAST(type AS BLOB)) BETWEEN 1 AND 255),
  aggregate_type TEXT CHECK (length(CAST(aggregate_type AS BLOB)) BETWEEN 1 AND 255),
  aggregate_id   TEXT CHECK (length(CAST(aggregate_id AS BLOB)) BETWEEN 1 AND 512),
  version        INTEGER CHECK (typeof(version) IN ('integer', 'null')),
  key            TEXT CHECK (length(CAST(key AS BLOB)) BETWEEN 1 AND 512),
  payload        TEXT CONSTRAINT "payload must be JSON of at most 786432 bytes"
                   CHECK (payload IS NULL OR (json_valid(payload) AND length(CAST(payload AS BLOB)) <= 786432)),
  payload_bytes  BLOB CONSTRAINT "payload_bytes must be at most 786432 bytes" CHECK (length(payload_bytes) <= 786432),
  content_type   TEXT CHECK (length(CAST(content_type AS BLOB)) BETWEEN 1 AND 255),
  metadata       TEXT CONSTRAINT "metadata must be a JSON object of at most 65536 bytes"
                   CHECK (metadata IS NULL OR (json_valid(metadata) AND json_type(metadata) = 'object'
                                           AND length(CAST(metadata AS BLOB)) <= 65536)),
  headers        TEXT CONSTRAINT "headers must be a JSON object of at most 16384 bytes"
                   CHECK (headers IS NULL OR (json_valid(headers) AND json_type(headers) = 'object'
                                           AND length(CAST(headers AS BLOB)) <= 16384)),
  routing_key    TEXT CHECK (length(CAST(routing_key AS BLOB)) BETWEEN 1 AND 255),
  schema_id      TEXT CHECK (length(CAST(schema_id AS BLOB)) BETWEEN 1 AND 255),
  schema_version INTEGER CHECK (typeof(schema_version) IN ('integer', 'null')
                                AND schema_version BETWEEN -2147483648 AND 2147483647),
  occurred_at    TEXT CONSTRAINT "occurred_at must be a time such as 2026-02-19T08:30:00Z"
                   CHECK (occurred_at IS NULL OR (
                     occurred_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-2][0-9]:[0-5][0-9]*'
                     AND julianday(occurred_at) IS NOT NULL AND substr(occurred_at, 12, 2) < '24'
                     AND date(substr(occurred_at, 1, 10), '+0 days') IS substr(occurred_at, 1, 10))),
  not_before     TEXT CONSTRAINT "not_before must be a time such as 2026-02-19T08:30:00Z"
                   CHECK (not_before IS NULL OR (
                     not_before GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-2][0-9]:[0-5][0-9]*'
                     AND julianday(not_before) IS NOT NULL AND substr(not_before, 12, 2) < '24'
                     AND date(substr(not_before, 1, 10), '+0 days') IS substr(not_before, 1, 10))),
  expires_at     TEXT CONSTRAINT "expires_at must be a time such as 2026-02-19T08:30:00Z"
                   CHECK (expires_at IS NULL OR (
                     expires_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-2][0-9]:[0-5][0-9]*'
                     AND julianday(expires_at) IS NOT NULL AND substr(expires_at, 12, 2) < '24'
                     AND date(substr(expires_at, 1, 10), '+0 days') IS substr(expires_at, 1, 10))),
  attempts_max   INTEGER CONSTRAINT "attempts_max must be between 1 and 1000"
                   CHECK (typeof(attempts_max) IN ('integer', 'null') AND attempts_max BETWEEN 1 AND 1000),
  dedup_key      TEXT CHECK (length(CAST(dedup_key AS BLOB)) BETWEEN 1 AND 512),
  created_at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  CONSTRAINT "exactly one of payload and payload_bytes must be given"
    CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
  CONSTRAINT "aggregate_type and aggregate_id go together" CHECK ((aggregate_type IS NULL) = (aggregate_id IS NULL)),
  CONSTRAINT "not_before must be at most 366 days ahead"
    CHECK (not_before IS NULL OR julianday(not_before) <= julianday(created_at) + 366)
);

-- A header is a name and a text that a protocol's line can carry: no message could carry others.
CREATE TRIGGER waybill_headers BEFORE INSERT ON waybill_event
WHEN CASE WHEN json_valid(NEW.headers) AND json_type(NEW.headers) = 'object' THEN
  EXISTS (SELECT 1 FROM json_each(NEW.headers) AS h
          WHERE h.type <> 'text' OR length(CAST(h.key AS BLOB)) NOT BETWEEN 1 AND 255
             OR h.key || h.value GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
             -- Half of a surrogate pair: GLOB reads it as U+FFFD.
             OR (h.key || h.value GLOB '*' || char(65533) || '*' AND NOT instr(h.key || h.value, char(65533))))
  OR (SELECT count(*) <> count(DISTINCT h.key) FROM json_each(NEW.headers) AS h)
  OR instr(NEW.headers, '\u0000') END  -- json_each() ends a text there.
BEGIN
  SELECT RAISE(ABORT, 'headers must be a JSON object of strings without control characters, each name of 1 to 255 bytes and once');
END;

-- The first event of each dedup key. A later one with the same key is not written.
CREATE TABLE waybill_dedup (
  tenant     TEXT NOT NULL,
  key        TEXT NOT NULL,
  id         TEXT NOT NULL,
  created_at TEXT NOT NULL,
  PRIMARY KEY (tenant, key)
) WITHOUT ROWID;

CREATE TRIGGER waybill_dedup_skip BEFORE INSERT ON waybill_event
WHEN NEW.dedup_key IS NOT NULL
 AND EXISTS (SELECT 1 FROM waybill_dedup WHERE tenant = NEW.tenant AND key = NEW.dedup_key)
BEGIN
  SELECT RAISE(IGNORE);
END;

CREATE TRIGGER waybill_dedup_keep AFTER INSERT ON waybill_event
WHEN NEW.dedup_key IS NOT NULL
BEGIN
  INSERT INTO waybill_dedup (tenant, key, id, created_at)
  VALUES (NEW.tenant, NEW.dedup_key, NEW.id, NEW.created_at);
END;
