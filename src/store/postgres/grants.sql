-- Roles to grant to the users that applications, relays and people log in with. Run by every migrate; made only if the
-- one who migrates may make roles, otherwise granted to as far as they are there.
DO $$
DECLARE
  suffix text;
  role text;
  view regclass;
  columns text;
BEGIN
  FOREACH suffix IN ARRAY ARRAY['enqueue', 'service', 'relay', 'operator', 'reader'] LOOP
    role := '{schema}_' || suffix;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', role);
      EXCEPTION
        WHEN insufficient_privilege THEN
          CONTINUE;
        WHEN duplicate_object OR unique_violation THEN
          NULL;  -- Another database of the cluster was faster.
      END;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA {schema} TO %I', role);
    -- So that a program knows whether it fits, and where it is.
    EXECUTE format('GRANT SELECT ON {schema}.migration, {schema}.identity TO %I', role);
    IF suffix IN ('enqueue', 'service') THEN
      EXECUTE format('GRANT INSERT (id, tenant, topic, type, aggregate_type, aggregate_id, version, key, payload, '
        'payload_bytes, content_type, metadata, headers, routing_key, schema_id, schema_version, occurred_at, '
        'not_before, expires_at, attempts_max, dedup_key) ON {schema}.event TO %I', role);
      EXECUTE format('GRANT EXECUTE ON FUNCTION {schema}.new_id, {schema}.enqueue, {schema}.first_id TO %I', role);
    ELSE
      EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO %I', role);
      EXECUTE format('GRANT SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO %I', role);
      -- Answers, states and messages of all tenants are nothing to the one that faces the network.
      IF suffix = 'relay' THEN
        EXECUTE format('REVOKE SELECT ON {schema}.snapshot, {schema}.inbox, {schema}.idempotency FROM %I', role);
      END IF;
      -- As a follower does, so that what it has read is on disk.
      EXECUTE format('GRANT EXECUTE ON FUNCTION {schema}.flush TO %I', role);
    END IF;
    -- Applications that keep more than events here. Streams are insert-only; a version is checked by append().
    IF suffix = 'service' THEN
      EXECUTE format('GRANT SELECT, INSERT (tenant, aggregate_type, aggregate_id, version, id, topic, type, payload, '
        'payload_bytes, metadata, schema_id, schema_version, occurred_at) ON {schema}.stream_event TO %I', role);
      EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.snapshot, {schema}.projection TO %I', role);
      -- What was handled stays so; an answer may be forgotten, but not become another.
      EXECUTE format('GRANT SELECT, INSERT ON {schema}.inbox TO %I', role);
      EXECUTE format('GRANT SELECT, INSERT, DELETE ON {schema}.idempotency TO %I', role);
      EXECUTE format('GRANT SELECT ON {schema}.projection_progress TO %I', role);
      EXECUTE format('GRANT EXECUTE ON FUNCTION {schema}.try_append, {schema}.append, {schema}.first_time, '
        '{schema}.idempotency_begin, {schema}.idempotency_end TO %I', role);
    END IF;
    -- The outbox views refuse every write and say which function to call instead. Rights on columns, since rights on the
    -- whole include LOCK TABLE. There is no right to delete on columns: people have it on the views, see standings().
    IF suffix IN ('enqueue', 'service', 'operator') THEN
      FOR view, columns IN
        SELECT a.attrelid::regclass, string_agg(quote_ident(a.attname), ', ') FROM pg_attribute a
        WHERE a.attrelid IN ('{schema}.outbox'::regclass, '{schema}.outbox_events'::regclass,
                             '{schema}.email_outbox'::regclass) AND a.attnum > 0
        GROUP BY a.attrelid
      LOOP
        EXECUTE format('GRANT INSERT (%s) ON %s TO %I', columns, view, role);
        IF suffix = 'operator' THEN
          EXECUTE format('GRANT UPDATE (%s), DELETE ON %s TO %I', columns, view, role);
        END IF;
      END LOOP;
    END IF;
    IF suffix = 'relay' THEN
      EXECUTE format('GRANT INSERT ON {schema}.destination, {schema}.lease, {schema}.cursor, {schema}.relay, {schema}.rules TO %I', role);
      EXECUTE format('GRANT UPDATE (term, owner, since, crashes, cursor, in_doubt_until) ON {schema}.lease TO %I', role);
      -- Not what people put in place of a payload, nor that they did.
      EXECUTE format('GRANT INSERT (destination, shard, seq, slot, id, key, standing, blocks, attempts, crashes, blamed, '
        'sending, due, error, in_doubt), UPDATE (key, standing, blocks, attempts, crashes, blamed, sending, due, since, '
        'error, in_doubt), DELETE '
        'ON {schema}.undelivered TO %I', role);
      EXECUTE format('GRANT INSERT ON {schema}.kept, {schema}.attempt TO %I', role);
      EXECUTE format('GRANT UPDATE, DELETE ON {schema}.relay TO %I', role);
    END IF;
    IF suffix IN ('relay', 'operator') THEN
      EXECUTE format('GRANT EXECUTE ON FUNCTION {schema}.keep, {schema}.clean_alone, {schema}.empty_slot, {schema}.sweep, '
        '{schema}.sweep_inbox, {schema}.sweep_idempotency, {schema}.note_timeline TO %I', role);
    END IF;
    IF suffix = 'operator' THEN
      EXECUTE format('GRANT EXECUTE ON FUNCTION {schema}.redrive, {schema}.dismiss, {schema}.edit, {schema}.pause, '
        '{schema}.resume, {schema}.rewind, {schema}.forget TO %I', role);
    END IF;
  END LOOP;
END $$;
-- admit() too: whoever may execute it can make it a trigger of a table of his own, and it has its owner's rights.
REVOKE ALL ON FUNCTION {schema}.enqueue, {schema}.first_id, {schema}.admit, {schema}.flush FROM PUBLIC;
REVOKE ALL ON FUNCTION {schema}.redrive, {schema}.dismiss, {schema}.edit, {schema}.pause, {schema}.resume, {schema}.rewind,
  {schema}.forget FROM PUBLIC;
REVOKE ALL ON FUNCTION {schema}.keep, {schema}.clean_alone, {schema}.empty_slot, {schema}.sweep, {schema}.sweep_inbox,
  {schema}.sweep_idempotency, {schema}.note_timeline FROM PUBLIC;
REVOKE ALL ON FUNCTION {schema}.try_append, {schema}.append, {schema}.first_time, {schema}.idempotency_begin,
  {schema}.idempotency_end FROM PUBLIC;
REVOKE ALL ON FUNCTION {schema}.anchor, {schema}.begin_history, {schema}.lock_for_anchor, {schema}.raise_sequences,
  {schema}.renumber_collisions, {schema}.renumber_streams FROM PUBLIC;
