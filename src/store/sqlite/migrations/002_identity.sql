-- Which log this is, and who has read it. oldest_program: 1
CREATE TABLE waybill_identity (
  one          INTEGER PRIMARY KEY CHECK (one = 1),
  log_id       TEXT NOT NULL,
  state_id     TEXT,                       -- of the relay's own file, since there is one
  cleaned_upto INTEGER NOT NULL DEFAULT 0  -- Some events up to here are gone.
);
INSERT INTO waybill_identity (one, log_id) VALUES (1, lower(hex(randomblob(16))));

-- The destinations there are: should the relay's own file be lost, nobody who waits for events is forgotten.
CREATE TABLE waybill_destination (name TEXT PRIMARY KEY) WITHOUT ROWID;

CREATE INDEX waybill_dedup_age ON waybill_dedup (created_at);
