-- What the catalogues of PostgreSQL and SQLite say of a table of balances. The parameters are its quoted name.

-- The columns. A domain is what it is made of, which may be another domain. The lower 11 bits of a numeric's typmod, less 4, are its scale with a sign.
-- name: columns
WITH RECURSIVE field (attnum, typid, typmod, is_base) AS (
    SELECT attnum, atttypid, atttypmod, NOT EXISTS (SELECT FROM pg_type WHERE oid = atttypid AND typtype = 'd')
    FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT field.attnum, type.typbasetype, type.typtypmod,
        NOT EXISTS (SELECT FROM pg_type AS base WHERE base.oid = type.typbasetype AND base.typtype = 'd')
    FROM field JOIN pg_type AS type ON type.oid = field.typid AND type.typtype = 'd'
)
SELECT CAST(owner.relkind AS text), CAST(attribute.attname AS text), CAST(base.typname AS text),
    CASE WHEN field.typmod >= 0 THEN (((field.typmod - 4) & 2047) # 1024) - 1024 END,
    format_type(attribute.atttypid, attribute.atttypmod), format_type(field.typid, field.typmod),
    coalesce(rule.collisdeterministic, true), row_security_active(owner.oid)
FROM field
JOIN pg_attribute AS attribute ON attribute.attrelid = to_regclass(?) AND attribute.attnum = field.attnum
JOIN pg_class AS owner ON owner.oid = attribute.attrelid
JOIN pg_type AS base ON base.oid = field.typid
LEFT JOIN pg_collation AS rule ON rule.oid = attribute.attcollation
WHERE field.is_base ORDER BY attribute.attnum

-- The names of the columns of each unique index, as JSON.
-- name: unique_indexes
SELECT CAST(json_agg(field.attname) AS text)
FROM pg_index AS index CROSS JOIN generate_series(0, index.indnkeyatts - 1) AS place
JOIN pg_attribute AS field ON field.attrelid = index.indrelid AND field.attnum = index.indkey[place]
WHERE index.indrelid = to_regclass(?) AND index.indisunique AND index.indisvalid AND index.indpred IS NULL
    AND index.indexprs IS NULL
GROUP BY index.indexrelid

-- The same in SQLite, of each index that compares bytewise. The parameters are table, schema and schema.
-- name: unique_indexes_in_sqlite
SELECT json_group_array(lower(field.name))
FROM pragma_index_list(?, ?) AS listed, pragma_index_xinfo(listed.name, ?) AS field
WHERE listed."unique" AND NOT listed.partial AND field.key
GROUP BY listed.name HAVING min(upper(field.coll) = 'BINARY' AND field.name IS NOT NULL)

-- The tables that hold the rows: the table, those that inherit from it, and its partitions.
-- name: base_tables
WITH RECURSIVE based (id) AS (
    SELECT CAST(to_regclass(?) AS oid) UNION SELECT inhrelid FROM based JOIN pg_inherits ON inhparent = based.id
)
SELECT quote_ident(space.nspname) || '.' || quote_ident(class.relname)
FROM based JOIN pg_class AS class ON class.oid = based.id
JOIN pg_namespace AS space ON space.oid = class.relnamespace ORDER BY 1
