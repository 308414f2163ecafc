-- The slots that hold something, the oldest first. $1 seconds after which an event is old
SELECT s.slot, s.state, s.laps, s.oldest, s.first_seq, s.last_seq, (SELECT i.slot_seconds FROM {schema}.identity i)
FROM {schema}.slots($1::bigint * interval '1 second') s
ORDER BY s.oldest, s.slot
