SELECT "{schema}".idempotency_end($1, $2, $3, $4, $5, $6, $7), pg_catalog.pg_current_xact_id_if_assigned()
