-- The outbox as a table with one row for each event, for eyes and queries that know it so. oldest_program: 2
--
-- outbox, outbox_events and email_outbox have the columns and the words of common outbox tables;
-- docs/coming-from-another-outbox.md has the mapping. published: delivered everywhere it goes; null: no destination's rules
-- sent it anywhere. Where an event is undelivered at several destinations, the worst
-- counts. What cannot match is not looked at: "published = FALSE" never reads what is published.

-- Events that are not settled somewhere, and undelivered nowhere: above the least end of all places, or of a transaction
-- that was open at one of them. A function, since it brings the settings under which it finds them by their index
-- whatever the statistics say: planned as part of a query it read the whole log.
CREATE FUNCTION {schema}.unsettled() RETURNS SETOF {schema}.event LANGUAGE sql STABLE ROWS 1000
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off AS $$
  WITH place AS MATERIALIZED (SELECT p.* FROM {schema}.place p),
  base AS MATERIALIZED (
    SELECT coalesce((SELECT pg_snapshot_xmax(p.settled) FROM place p ORDER BY pg_snapshot_xmax(p.settled) LIMIT 1), '3')
           AS xid),
  late AS MATERIALIZED (
    SELECT DISTINCT x.xid FROM place p CROSS JOIN LATERAL pg_snapshot_xip(p.settled) AS x (xid)
    JOIN base b ON x.xid < b.xid)
  SELECT e.* FROM (
    SELECT e.* FROM base b
    CROSS JOIN LATERAL (SELECT e.* FROM {schema}.event e WHERE e.xid >= b.xid ORDER BY e.xid, e.shard, e.seq) e
    UNION ALL
    SELECT e.* FROM late l
    CROSS JOIN LATERAL (SELECT e.* FROM {schema}.event e WHERE e.xid >= l.xid AND e.xid <= l.xid
                        ORDER BY e.xid, e.shard, e.seq) e
  ) e
  WHERE (NOT EXISTS (SELECT FROM place)
         OR EXISTS (SELECT FROM place p
                    WHERE p.shard = e.shard AND NOT {schema}.is_settled(e.xid, e.seq, p.settled, p.walking, p.upto)))
    AND NOT EXISTS (SELECT FROM {schema}.destination d
                    JOIN {schema}.undelivered u ON u.destination = d.name AND u.shard = e.shard AND u.seq = e.seq)
$$;

-- Do these rules send such an event? As the relay decides it: of each field that has patterns, one must match.
CREATE FUNCTION {schema}.takes(match json, topic text, type text, tenant text, aggregate_type text)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT NOT EXISTS (
    SELECT FROM json_each(takes.match) AS field (name, patterns)
    WHERE NOT EXISTS (
      SELECT FROM json_array_elements_text(field.patterns) AS p (pattern)
      WHERE CASE field.name WHEN 'topic' THEN takes.topic WHEN 'type' THEN coalesce(takes.type, takes.topic)
                            WHEN 'tenant' THEN takes.tenant ELSE coalesce(takes.aggregate_type, '') END
            LIKE {schema}.like_pattern(p.pattern)))
$$;

-- Why a destination was not sent an event that it has settled and that is not undelivered there: the number of the rules
-- that skipped it last; 0: the destination began after it (start = "now"). Null: it was sent. After a rewind the cursor
-- passes an event again, perhaps under other rules: it was skipped if none of these times sent it.
CREATE FUNCTION {schema}.skipped_by(
  destination text, shard smallint, seq bigint, xid xid8, topic text, type text, tenant text, aggregate_type text)
RETURNS integer LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  sending integer[] := ARRAY(
    SELECT r.id FROM {schema}.rules r WHERE r.destination = skipped_by.destination
      AND {schema}.takes(r.match, skipped_by.topic, skipped_by.type, skipped_by.tenant, skipped_by.aggregate_type));
  rewound bigint;  -- a row of the cursor that moved it back
  passed integer;
  result integer := 0;
BEGIN
  SELECT c.rules INTO passed FROM {schema}.cursor c
  WHERE c.destination = skipped_by.destination AND c.hi > skipped_by.xid AND skipped_by.shard = ANY (c.shards)
    AND {schema}.is_settled(skipped_by.xid, skipped_by.seq, c.settled, c.walking, c.upto)
  ORDER BY c.destination, c.hi, c.id LIMIT 1;
  IF passed = ANY (sending) THEN
    RETURN NULL;
  END IF;
  result := coalesce(passed, result);
  FOR rewound IN
    SELECT c.id FROM {schema}.cursor c
    WHERE c.destination = skipped_by.destination AND c.rules IS NULL AND skipped_by.shard = ANY (c.shards)
      AND EXISTS (SELECT FROM {schema}.cursor o WHERE o.destination = skipped_by.destination AND o.id < c.id
                    AND skipped_by.shard = ANY (o.shards))
    ORDER BY c.destination, c.id
  LOOP
    SELECT c.rules INTO passed FROM {schema}.cursor c
    WHERE c.destination = skipped_by.destination AND c.id >= rewound AND skipped_by.shard = ANY (c.shards)
      AND {schema}.is_settled(skipped_by.xid, skipped_by.seq, c.settled, c.walking, c.upto)
    ORDER BY c.destination, c.id LIMIT 1;
    IF passed = ANY (sending) THEN
      RETURN NULL;
    END IF;
    result := coalesce(passed, result);
  END LOOP;
  RETURN result;
END $$;

-- Can any event have been skipped anywhere? Asked once per query, since most logs need no closer look.
CREATE FUNCTION {schema}.anything_skipped() RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM {schema}.rules r WHERE r.match::text <> '{}')
      OR EXISTS (SELECT FROM {schema}.destination d
                 JOIN {schema}.cursor c ON c.destination = d.name AND c.rules IS NULL AND c.hi > '3')
$$;

-- Every event and how it stands: 'pending', 'published', 'skipped' (sent nowhere), or as in `undelivered`.
CREATE VIEW {schema}.standing AS
SELECT e.seq, e.shard, e.id, e.tenant, e.topic, e.type, e.aggregate_type, e.aggregate_id, e.version, e.payload, e.metadata,
       e.headers, e.routing_key, e.schema_id, e.schema_version, e.occurred_at, e.created_at, e.attempts_max, e.dedup_key,
       false AS published, NULL::timestamptz AS published_at, 'pending' AS standing, false AS sending, 0 AS attempts,
       NULL::timestamptz AS due, NULL::timestamptz AS last_attempt_at, NULL::timestamptz AS failed_at, NULL::text AS error
FROM {schema}.unsettled() e
UNION ALL
SELECT e.seq, e.shard, e.id, e.tenant, e.topic, e.type, e.aggregate_type, e.aggregate_id, e.version,
       coalesce(u.payload, e.payload), e.metadata, coalesce(u.headers, e.headers), e.routing_key, e.schema_id,
       e.schema_version, e.occurred_at, e.created_at, e.attempts_max, e.dedup_key, false, NULL, u.standing, u.sending > 0,
       u.attempts, CASE WHEN u.standing IN ('retrying', 'blocked', 'scheduled') THEN u.due END,
       (SELECT max(a.at) FROM {schema}.attempt a
        WHERE a.shard = u.shard AND a.seq = u.seq AND a.destination = u.destination),
       CASE WHEN u.attempts > 0 OR u.standing IN ('expired', 'expired_unknown', 'dead') THEN u.since END, nullif(u.error, '')
FROM (
  SELECT DISTINCT ON (u.shard, u.seq) u.* FROM {schema}.undelivered u
  ORDER BY u.shard, u.seq, array_position('{dead,held,expired,expired_unknown,retrying,blocked,scheduled,dismissed}', u.standing),
           u.destination
) u
CROSS JOIN LATERAL (
  SELECT e.seq, e.shard, e.id, e.tenant, e.topic, e.type, e.aggregate_type, e.aggregate_id, e.version, e.payload,
         e.metadata, e.headers, e.routing_key, e.schema_id, e.schema_version, e.occurred_at, e.created_at,
         e.attempts_max, e.dedup_key
  FROM {schema}.event e WHERE e.slot = u.slot AND e.shard = u.shard AND e.seq = u.seq
  UNION ALL
  SELECT k.seq, k.shard, k.id, k.tenant, k.topic, k.type, k.aggregate_type, k.aggregate_id, k.version, k.payload,
         k.metadata, k.headers, k.routing_key, k.schema_id, k.schema_version, k.occurred_at, k.created_at,
         k.attempts_max, k.dedup_key
  FROM {schema}.kept k WHERE k.shard = u.shard AND k.seq = u.seq
  LIMIT 1) e
UNION ALL
(WITH place AS MATERIALIZED (SELECT p.* FROM {schema}.place p)
SELECT e.seq, e.shard, e.id, e.tenant, e.topic, e.type, e.aggregate_type, e.aggregate_id, e.version, e.payload, e.metadata,
       e.headers, e.routing_key, e.schema_id, e.schema_version, e.occurred_at, e.created_at, e.attempts_max, e.dedup_key,
       true,
       greatest((SELECT max(s.settled_at) FROM {schema}.destination d
                 CROSS JOIN LATERAL (
                   SELECT c.settled_at FROM {schema}.cursor c
                   WHERE c.destination = d.name AND c.hi > e.xid AND e.shard = ANY (c.shards)
                     AND {schema}.is_settled(e.xid, e.seq, c.settled, c.walking, c.upto)
                   ORDER BY c.destination, c.hi, c.id LIMIT 1) s
                 WHERE NOT (SELECT {schema}.anything_skipped())
                    OR {schema}.skipped_by(d.name, e.shard, e.seq, e.xid, e.topic, e.type, e.tenant, e.aggregate_type)
                       IS NULL),
                (SELECT max(a.at) FROM {schema}.attempt a
                 WHERE a.shard = e.shard AND a.seq = e.seq AND a.outcome = 'delivered')),
       'published', false, 0, NULL, NULL, NULL, NULL
FROM {schema}.event e
WHERE EXISTS (SELECT FROM place)
  AND NOT EXISTS (SELECT FROM place p
                  WHERE p.shard = e.shard AND NOT {schema}.is_settled(e.xid, e.seq, p.settled, p.walking, p.upto))
  AND NOT EXISTS (SELECT FROM {schema}.undelivered u WHERE u.shard = e.shard AND u.seq = e.seq)
  AND (NOT (SELECT {schema}.anything_skipped())
       OR EXISTS (SELECT FROM {schema}.destination d
                  WHERE {schema}.skipped_by(d.name, e.shard, e.seq, e.xid, e.topic, e.type, e.tenant, e.aggregate_type)
                        IS NULL)))
UNION ALL
(WITH place AS MATERIALIZED (SELECT p.* FROM {schema}.place p)
SELECT e.seq, e.shard, e.id, e.tenant, e.topic, e.type, e.aggregate_type, e.aggregate_id, e.version, e.payload, e.metadata,
       e.headers, e.routing_key, e.schema_id, e.schema_version, e.occurred_at, e.created_at, e.attempts_max, e.dedup_key,
       NULL, NULL, 'skipped', false, 0, NULL, NULL, NULL, NULL
FROM {schema}.event e
WHERE (SELECT {schema}.anything_skipped())
  AND EXISTS (SELECT FROM place)
  AND NOT EXISTS (SELECT FROM place p
                  WHERE p.shard = e.shard AND NOT {schema}.is_settled(e.xid, e.seq, p.settled, p.walking, p.upto))
  AND NOT EXISTS (SELECT FROM {schema}.undelivered u WHERE u.shard = e.shard AND u.seq = e.seq)
  AND NOT EXISTS (SELECT FROM {schema}.destination d
                  WHERE {schema}.skipped_by(d.name, e.shard, e.seq, e.xid, e.topic, e.type, e.tenant, e.aggregate_type)
                        IS NULL));

-- The outbox views read through this function and not through the view: LOCK TABLE goes from a view to all that is under it,
-- with the rights of the view's owner, but not into a function. Without SET: it is planned as a part of the query.
CREATE FUNCTION {schema}.standings() RETURNS SETOF {schema}.standing LANGUAGE sql STABLE AS $$
  SELECT * FROM {schema}.standing
$$;

CREATE VIEW {schema}.outbox AS
SELECT s.id, s.tenant AS tenant_id, s.aggregate_id, s.aggregate_type, s.topic, coalesce(s.type, s.topic) AS event_type,
       s.payload AS event_data, s.payload, s.metadata, s.metadata AS event_metadata,
       coalesce(s.occurred_at, s.created_at) AS occurred_at, s.created_at, s.published_at, s.published,
       s.attempts AS retry_count,
       CASE WHEN s.sending THEN 'PUBLISHING'
            ELSE CASE s.standing WHEN 'pending' THEN 'NEW' WHEN 'published' THEN 'SENT' WHEN 'blocked' THEN 'NEW'
                                 WHEN 'scheduled' THEN 'NEW' WHEN 'retrying' THEN 'FAILED' WHEN 'held' THEN 'FAILED'
                                 WHEN 'dismissed' THEN 'DISMISSED' WHEN 'skipped' THEN 'SKIPPED'
                                 ELSE 'DEAD' END END AS status,
       s.due AS retry_after, s.error AS error_message, s.routing_key, s.schema_id, coalesce(s.schema_version, 1) AS schema_version
FROM {schema}.standings() s;

CREATE VIEW {schema}.outbox_events AS
SELECT s.id, s.aggregate_id, s.aggregate_type, coalesce(s.type, s.topic) AS event_type, s.payload AS event_data,
       s.metadata,
       CASE s.standing WHEN 'published' THEN 'published' WHEN 'retrying' THEN 'failed' WHEN 'held' THEN 'failed'
                       WHEN 'dead' THEN 'dead_letter' WHEN 'expired' THEN 'dead_letter'
                       WHEN 'expired_unknown' THEN 'dead_letter' WHEN 'dismissed' THEN 'dismissed'
                       WHEN 'skipped' THEN 'skipped' ELSE 'pending' END AS status,
       s.version, s.created_at, s.published_at, s.failed_at, s.attempts AS retry_count, s.attempts_max AS max_retries,
       s.error AS last_error, s.due AS next_retry_at
FROM {schema}.standings() s;

CREATE VIEW {schema}.email_outbox AS
SELECT s.id, s.aggregate_id AS memo_id, coalesce(s.type, s.topic) AS event_type, s.payload,
       coalesce(s.payload ->> 'recipient_email', s.metadata ->> 'recipient_email', s.headers ->> 'recipient_email',
                s.payload ->> 'to', s.headers ->> 'to') AS recipient_email,
       s.topic AS notification_type,
       CASE WHEN s.sending THEN 'SENDING'
            ELSE CASE s.standing WHEN 'published' THEN 'SENT' WHEN 'dead' THEN 'FAILED' WHEN 'expired' THEN 'FAILED'
                                 WHEN 'expired_unknown' THEN 'FAILED'
                                 WHEN 'held' THEN 'FAILED' WHEN 'dismissed' THEN 'DISMISSED'
                                 WHEN 'skipped' THEN 'SKIPPED' ELSE 'PENDING' END END AS status,
       s.attempts AS retry_count, s.last_attempt_at, s.published_at AS sent_at, s.error AS error_message,
       s.dedup_key AS idempotency_key, s.created_at AS meta_created_at,
       coalesce(s.last_attempt_at, s.published_at) AS meta_updated_at
FROM {schema}.standings() s;

-- Says what to do instead. Before the statement, so that it says so also where nothing would match, and at once.
CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE feature_not_supported USING
    MESSAGE = format('%s.%s shows the log and cannot be written to', TG_TABLE_SCHEMA, TG_TABLE_NAME),
    HINT = CASE TG_OP
      WHEN 'INSERT' THEN 'SELECT {schema}.enqueue(''topic'', ''{…}'', aggregate_type => …, aggregate_id => …);'
      WHEN 'UPDATE' THEN 'To send again what has failed: SELECT {schema}.redrive(''destination'', ids => ''{…}''); to mend '
        'it first: SELECT {schema}.edit(''destination'', ''id'', payload => …); to give it up: {schema}.dismiss(…).'
      ELSE 'What is old and published goes by itself; now: waybill clean. To give up a dead letter: '
        'SELECT {schema}.dismiss(''destination'', ids => ''{…}'');' END;
END $$;
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['outbox', 'outbox_events', 'email_outbox'] LOOP
    EXECUTE format('CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON {schema}.%I FOR EACH STATEMENT '
                   'EXECUTE FUNCTION {schema}.refuse()', name);
    EXECUTE format('CREATE TRIGGER refuse_row INSTEAD OF INSERT OR UPDATE OR DELETE ON {schema}.%I FOR EACH ROW '
                   'EXECUTE FUNCTION {schema}.refuse()', name);
  END LOOP;
END $$;

-- How many events a destination has before it, exact up to 10,000, and how old the oldest is. What its rules will not send
-- counts: only the relay knows them. Beyond, an estimate: what was written since the first of them.
CREATE FUNCTION {schema}.pending(destination text, OUT events bigint, OUT exact boolean, OUT oldest timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
  place record;
  first bigint;
BEGIN
  SELECT p.* INTO place FROM {schema}.places p WHERE p.destination = pending.destination;
  SELECT count(*), min(e.seq), min(e.created_at) INTO events, first, oldest FROM (
    (SELECT e.seq, e.created_at FROM {schema}.event e
     WHERE e.xid >= place.base AND NOT {schema}.is_settled(
       e.xid, e.seq, place.settled[e.shard + 1], place.walking[e.shard + 1], place.upto[e.shard + 1])
     ORDER BY e.xid, e.shard, e.seq LIMIT 10001)
    UNION ALL
    (SELECT late.seq, late.created_at FROM unnest(place.late) AS x (xid)
     CROSS JOIN LATERAL (
       SELECT e.seq, e.created_at FROM {schema}.event e
       WHERE e.xid >= x.xid AND e.xid <= x.xid AND x.xid < place.base AND NOT {schema}.is_settled(
         e.xid, e.seq, place.settled[e.shard + 1], place.walking[e.shard + 1], place.upto[e.shard + 1])
       ORDER BY e.xid, e.shard, e.seq LIMIT 10001) late)) e;
  exact := events <= 10000;
  IF NOT exact THEN
    events := greatest(events, (SELECT s.last_value FROM {schema}.event_seq_seq s) - first + 1);
  END IF;
END $$;
