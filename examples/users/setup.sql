-- Run it after `waybill migrate`, as the owner of the database.
CREATE TABLE users (
  id uuid PRIMARY KEY, email text NOT NULL UNIQUE, name text NOT NULL, version bigint NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now());
CREATE ROLE users_service LOGIN IN ROLE waybill_enqueue;  -- may write events, and nothing else of Waybill's
GRANT SELECT, INSERT, UPDATE, DELETE ON users TO users_service;
