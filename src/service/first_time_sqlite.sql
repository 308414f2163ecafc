INSERT INTO waybill_inbox (consumer, message_id, tenant) VALUES ($1, $2, coalesce($3, 'default')) ON CONFLICT DO NOTHING
