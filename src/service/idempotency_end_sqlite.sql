-- In place of an answer that has expired; never of one that counts.
INSERT INTO waybill_idempotency (key, fingerprint, status, body, content_type, expires_at, tenant)
VALUES ($1, $2, $3, $4, $5, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+' || $6), coalesce($7, 'default'))
ON CONFLICT (tenant, key) DO UPDATE
SET fingerprint = excluded.fingerprint, status = excluded.status, content_type = excluded.content_type,
    body = excluded.body, answered_at = excluded.answered_at, expires_at = excluded.expires_at
WHERE expires_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
