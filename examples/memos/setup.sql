-- Run it after `waybill migrate`, as the owner of the database.
CREATE TABLE memos (
  id uuid PRIMARY KEY, number bigint GENERATED ALWAYS AS IDENTITY, department_code text NOT NULL, title text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now());
CREATE ROLE memos_service LOGIN IN ROLE waybill_enqueue;  -- may write events, and nothing else of Waybill's
GRANT SELECT, INSERT ON memos TO memos_service;
