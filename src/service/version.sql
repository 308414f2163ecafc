SELECT version FROM {stream_event} WHERE tenant = $1 AND aggregate_type = $2 AND aggregate_id = $3
ORDER BY version DESC LIMIT 1
