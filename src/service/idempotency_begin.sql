SELECT outcome, status, content_type, pg_catalog.encode(body, 'hex')
FROM "{schema}".idempotency_begin($1, $2, $3, $4)
