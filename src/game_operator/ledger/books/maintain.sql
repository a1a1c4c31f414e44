-- What maintain remembers.

-- name: last_run
SELECT MAX(value) FROM {prefix}meta WHERE name = 'maintained_millis'

-- name: live_count
SELECT COUNT(*) FROM {prefix}slices WHERE folded_at_millis IS NULL

-- PostgreSQL: those that this user may analyze.
-- name: tables
SELECT quote_ident(relname) FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
    AND starts_with(CAST(relname AS text), '{prefix}') AND pg_table_is_visible(oid) AND pg_has_role(relowner, 'USAGE')

-- After a restore there are none until somebody analyzes; a page of calls would then read the whole table.
-- name: tables_without_statistics
{tables} AND reltuples <> 0 AND NOT EXISTS (
    SELECT 1 FROM pg_stats WHERE schemaname = CAST(relnamespace::regnamespace AS text) AND tablename = relname
)

-- name: first
SELECT MIN(opened_at_millis) FROM (
    SELECT (
        SELECT opened_at_millis FROM {prefix}bets AS b WHERE b.source = s.name AND b.opened_at_millis >= 0
        ORDER BY b.opened_at_millis LIMIT 1
    ) AS opened_at_millis FROM {prefix}sources AS s
) AS firsts

-- name: position
SELECT body FROM {prefix}documents WHERE name = 'read again'

-- name: keep_position
INSERT INTO {prefix}documents (name, body, at_millis) VALUES ('read again', ?, ?)
ON CONFLICT (name) DO UPDATE SET body = excluded.body, at_millis = excluded.at_millis
