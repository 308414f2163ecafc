-- The relay's own file, beside the application's: progress must never break an application's transaction.
-- This is version 1 of it; state_file.cc has the others.
CREATE TABLE IF NOT EXISTS cursor (
  destination TEXT NOT NULL,
  seq         INTEGER NOT NULL,  -- Everything up to here is settled.
  settled_at  TEXT NOT NULL,
  count       INTEGER NOT NULL,  -- Events settled by this row.
  PRIMARY KEY (destination, seq)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS relay (
  one          INTEGER PRIMARY KEY CHECK (one = 1),  -- One relay at a time works on a file.
  id           TEXT NOT NULL,
  name         TEXT NOT NULL,
  last_seen    TEXT NOT NULL,
  lease_ms     INTEGER NOT NULL,
  destinations TEXT NOT NULL  -- JSON array
);
