-- Run it after `waybill migrate`, as the owner of the database, with psql.
CREATE ROLE clinic_service LOGIN IN ROLE waybill_service;
ALTER ROLE clinic_service SET waybill.tenant = 'default';  -- The clinic is the only one; see docs/library.md, Tenants.
GRANT CREATE ON DATABASE :"DBNAME" TO clinic_service;      -- The board's tables are in a schema of their own.
