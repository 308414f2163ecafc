-- The event with id $1, among those with a seq from $2 to $3.
SELECT {columns} FROM {schema}.event e WHERE e.id = $1::uuid AND e.seq BETWEEN $2::bigint AND $3::bigint LIMIT 1
