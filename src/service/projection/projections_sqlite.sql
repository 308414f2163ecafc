SELECT p.name, 0, p.handled, b.behind,
       CAST(max(coalesce((julianday('now') - julianday(b.oldest)) * 86400000, 0), 0) AS INTEGER), p.changed_at
FROM waybill_projection p
JOIN (SELECT p.name, count(e.position) AS behind, min(e.recorded_at) AS oldest
      FROM waybill_projection p
      LEFT JOIN waybill_stream_event e ON e.position > p.upto AND e.position <= p.upto + 10000
      GROUP BY p.name) b ON b.name = p.name
WHERE p.name = $1 OR $1 IS NULL ORDER BY p.name
