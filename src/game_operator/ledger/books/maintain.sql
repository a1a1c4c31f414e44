-- What maintain remembers.

-- name: last_run
SELECT MAX(value) FROM {prefix}meta WHERE name = 'maintained_millis'

-- PostgreSQL: those that this user may analyze.
-- name: tables
SELECT quote_ident(relname) FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
    AND starts_with(CAST(relname AS text), '{prefix}') AND pg_table_is_visible(oid) AND pg_has_role(relowner, 'USAGE')

-- After a restore there are none until somebody analyzes; a page of calls would then read the whole table.
-- name: tables_without_statistics
{tables} AND reltuples <> 0 AND NOT EXISTS (
    SELECT 1 FROM pg_stats WHERE schemaname = CAST(relnamespace::regnamespace AS text) AND tablename = relname
)

-- name: position
SELECT body FROM {prefix}documents WHERE name = 'read again'

-- name: keep_position
INSERT INTO {prefix}documents (name, body, at_millis) VALUES ('read again', ?, ?)
ON CONFLICT (name) DO UPDATE SET body = excluded.body, at_millis = excluded.at_millis
