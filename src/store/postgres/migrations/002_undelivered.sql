-- What could not be delivered, and what people do about it. oldest_program: 2
--
-- An older program would not know that keys are blocked, and send their events out of order.

-- paused: nothing is published there. changes: grows whenever a person has changed something there.
ALTER TABLE {schema}.destination
  ADD COLUMN paused  boolean NOT NULL DEFAULT false,
  ADD COLUMN changes bigint NOT NULL DEFAULT 0;

-- crashes: relays in a row that died here without getting anywhere. cursor: its newest row when the lease was taken.
-- in_doubt_until: what was written until then and is not settled may have been sent: an owner ended without giving the lease
-- back, or its connection broke, or the destination was rewound.
ALTER TABLE {schema}.lease
  ADD COLUMN crashes        integer NOT NULL DEFAULT 0,
  ADD COLUMN cursor         bigint,
  ADD COLUMN in_doubt_until timestamptz;

-- Events that the cursor has passed although they were not delivered. Each refers to its event: in the log by slot, shard
-- and seq, or else in `kept`. COLLATE "C": an index is searched by bytes, whatever the database's language.
CREATE TABLE {schema}.undelivered (
  destination    text COLLATE "C" NOT NULL,
  shard          smallint NOT NULL,
  seq            bigint NOT NULL,
  slot           smallint NOT NULL,
  id             uuid NOT NULL,      -- of the event
  key            bigint NOT NULL,    -- a hash of tenant and key; 0: it waits for nobody, and nobody for it
  standing       text COLLATE "C" NOT NULL
                   CHECK (standing IN ('retrying', 'blocked', 'scheduled', 'held', 'expired', 'expired_unknown', 'dead',
                                       'dismissed')),
  blocks         boolean NOT NULL,   -- Events of its key wait behind it.
  attempts       integer NOT NULL,
  crashes        integer NOT NULL,   -- attempts in a row that their relays did not survive
  blamed         integer NOT NULL DEFAULT 0,  -- of these, those that count against the event
  sending        smallint NOT NULL,  -- Is an attempt under way? 0 no, 1 yes, 2 yes, and a crash counts against the event
  redrives       integer NOT NULL DEFAULT 0,
  due            timestamptz NOT NULL CHECK (isfinite(due)),  -- when it may be tried, if it waits for that
  since          timestamptz NOT NULL DEFAULT clock_timestamp(),  -- when it came here; of what has ended or is held, then
  error          text NOT NULL CHECK (octet_length(error) <= 2000),
  in_doubt       boolean NOT NULL DEFAULT false,  -- An attempt at it may have arrived.
  ignore_expiry  boolean NOT NULL DEFAULT false,  -- redriven after it had expired: it goes all the same
  -- In place of what the event says.
  payload        json,
  payload_bytes  bytea,
  headers        json,
  PRIMARY KEY (destination, shard, seq)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX undelivered_by_key ON {schema}.undelivered (destination, shard, key, seq) WHERE blocks;
CREATE INDEX undelivered_by_due ON {schema}.undelivered (destination, shard, due)
  WHERE key = 0 AND standing IN ('retrying', 'blocked', 'scheduled');
CREATE INDEX undelivered_by_standing ON {schema}.undelivered (destination, standing, seq);
CREATE INDEX undelivered_at_rest ON {schema}.undelivered (destination, seq) WHERE standing IN ('dead', 'held');

-- Copies of events: made when they die, and before the log lets go of what is undelivered.
CREATE TABLE {schema}.kept (LIKE {schema}.event, PRIMARY KEY (shard, seq));
CREATE INDEX kept_by_id ON {schema}.kept (id);

-- What came of each attempt at an event that has failed. Appended.
CREATE TABLE {schema}.attempt (
  destination text NOT NULL,
  shard       smallint NOT NULL,
  seq         bigint NOT NULL,
  number      integer NOT NULL,  -- The first is 1; a redrive begins anew.
  at          timestamptz NOT NULL,
  relay       text NOT NULL,
  outcome     text NOT NULL CHECK (outcome IN ('delivered', 'retry', 'rejected', 'unavailable', 'unknown')),
  error       text NOT NULL CHECK (octet_length(error) <= 2000)
);
CREATE INDEX attempt_by_seq ON {schema}.attempt (shard, seq);

-- What people have done.
CREATE TABLE {schema}.operation (
  id          uuid PRIMARY KEY,
  kind        text NOT NULL CHECK (kind IN ('redrive', 'dismiss', 'edit', 'pause', 'resume', 'rewind', 'forget')),
  by          text NOT NULL,  -- as they call themselves,
  login       text NOT NULL,  -- and as the database knows them
  destination text NOT NULL,
  details     jsonb NOT NULL,
  events      bigint NOT NULL DEFAULT 0,
  at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX operation_by_time ON {schema}.operation (at);
