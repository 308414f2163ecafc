-- The example's own tables, and a user for each side. Run it after `waybill migrate`, as the owner of the database.
CREATE TABLE stock (sku text PRIMARY KEY, amount bigint NOT NULL CHECK (amount >= 0));
CREATE TABLE parcel (event uuid NOT NULL, sku text NOT NULL, amount bigint NOT NULL);  -- nothing here is unique
INSERT INTO stock VALUES ('tea', 100), ('cups', 12);

CREATE ROLE shop LOGIN IN ROLE waybill_enqueue;  -- may write events, and nothing else of Waybill's
GRANT SELECT, UPDATE ON stock TO shop;

CREATE ROLE warehouse LOGIN IN ROLE waybill_service;  -- may use the inbox, too
ALTER ROLE warehouse SET waybill.tenant = 'default';  -- rows of one tenant are what it sees
GRANT INSERT ON parcel TO warehouse;
