-- Makes a destination and its leases known. $1 names
WITH made AS (
  INSERT INTO {schema}.destination (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING RETURNING name
)
INSERT INTO {schema}.lease (destination, shard)
SELECT m.name, s FROM made m, generate_series(0, (SELECT i.shards FROM {schema}.identity i) - 1) s
ON CONFLICT DO NOTHING
