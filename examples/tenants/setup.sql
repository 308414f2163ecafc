-- The example's own tables, and the user that it works as. Run it after `waybill migrate`, as the owner of the database.
CREATE TABLE tenant (
  id text PRIMARY KEY, name text NOT NULL, open boolean NOT NULL, version bigint NOT NULL);
CREATE TABLE api_key (
  id uuid PRIMARY KEY, tenant text NOT NULL REFERENCES tenant, name text NOT NULL, secret_hash text NOT NULL,
  valid boolean NOT NULL, version bigint NOT NULL);

CREATE ROLE tenants_service LOGIN IN ROLE waybill_service;
GRANT SELECT, INSERT, UPDATE ON tenant, api_key TO tenants_service;

-- The same rule that Waybill's own tables have: a transaction sees and writes the rows of the tenant that it names.
ALTER TABLE tenant ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON tenant USING (id = current_setting('waybill.tenant', true));
ALTER TABLE api_key ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON api_key USING (tenant = current_setting('waybill.tenant', true));
