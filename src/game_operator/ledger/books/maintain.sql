-- What maintain remembers.

-- name: last_run
SELECT MAX(value) FROM {prefix}meta WHERE name = 'maintained_millis'

-- PostgreSQL: those that this user may analyze.
-- name: tables
SELECT quote_ident(relname) FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
    AND starts_with(CAST(relname AS text), '{prefix}') AND pg_table_is_visible(oid) AND pg_has_role(relowner, 'USAGE')

-- name: position
SELECT body FROM {prefix}documents WHERE name = 'read again'

-- name: keep_position
INSERT INTO {prefix}documents (name, body, at_millis) VALUES ('read again', ?, ?)
ON CONFLICT (name) DO UPDATE SET body = excluded.body, at_millis = excluded.at_millis
