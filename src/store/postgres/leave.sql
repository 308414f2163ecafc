-- A relay is gone; others need not wait. Also forgets relays that were not seen for a day. $1 id
WITH gone AS (
  DELETE FROM {schema}.relay WHERE id = $1 OR alive_until < clock_timestamp() - interval '1 day' RETURNING id
)
SELECT count(*), pg_notify('{schema}_leases', '') FROM gone
