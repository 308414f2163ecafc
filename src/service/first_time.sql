SELECT "{schema}".first_time($1, $2, $3), pg_catalog.pg_current_xact_id_if_assigned()
