-- What became visible since each lane's snapshot, at most $4 events of a group of lanes; the first row is this
-- statement's own snapshot and the last seq drawn, also when there is nothing else.
-- $1 bases of the groups. By shard (from 0): $2 the number of its group (from 1; null: none of ours), $3 its snapshot.
-- All lanes of a group are found in one walk from its base, past what is not theirs or was visible already.
-- Mostly there is little to find, and the plan's start is what costs: hence few nodes, and another statement
-- (probe_late.sql) for when there are late transactions to look up.
SELECT {null_columns}, pg_current_snapshot()::text AS snapshot, {last_seq} AS last
UNION ALL
SELECT e.*, NULL, NULL
FROM unnest($1::xid8[]{late_parameter}) WITH ORDINALITY AS lanes (base{late_column}, number)
CROSS JOIN LATERAL (
  (SELECT {columns} FROM {schema}.event e
   WHERE e.xid >= lanes.base AND e.xid < pg_snapshot_xmax(pg_current_snapshot())
     AND ($2::smallint[])[e.shard + 1] = lanes.number AND NOT pg_visible_in_snapshot(e.xid, ($3::pg_snapshot[])[e.shard + 1])
   ORDER BY e.xid, e.shard, e.seq LIMIT $4::integer)
  {late}
) e
