SELECT CASE WHEN fingerprint = $2 THEN 'again' ELSE 'other' END, status, content_type, hex(body)
FROM waybill_idempotency
WHERE tenant = coalesce($3, 'default') AND key = $1 AND expires_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
