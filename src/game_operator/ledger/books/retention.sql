-- The statements of retention, and those for partitions of postings by day, through the functions of the schema.

-- name: old_days
SELECT DISTINCT day FROM {prefix}slices WHERE folded_at_millis IS NULL AND last_id > 0 AND day < ? ORDER BY day

-- name: why_kept
SELECT CASE
    WHEN EXISTS (SELECT 1 FROM {prefix}slices WHERE day = ? AND findings > 0) THEN 'findings'
    WHEN EXISTS (
        SELECT 1 FROM {prefix}postings
        WHERE id > COALESCE((SELECT value FROM {prefix}meta WHERE name = 'checkpoint_position'), 0)
            AND at_millis >= ? AND at_millis < ?
    ) THEN 'not sealed'
    WHEN EXISTS (
        SELECT 1 FROM {prefix}postings
        WHERE id > COALESCE((SELECT MAX(position) FROM {prefix}closes WHERE before_day > ?), 0)
            AND at_millis >= ? AND at_millis < ?
    ) THEN 'not closed'
    WHEN EXISTS (
        SELECT 1 FROM {prefix}bets WHERE state = 'OPEN' AND opened_at_millis >= ? AND opened_at_millis < ?
    ) THEN 'open bets'
    ELSE '' END

-- name: is_live
SELECT 1 FROM {prefix}slices WHERE day = ? AND last_id = ? AND folded_at_millis IS NULL AND findings = 0

-- name: take
DELETE FROM {prefix}postings WHERE id >= ? AND id <= ? AND at_millis >= ? AND at_millis < ?
RETURNING id, at_millis, from_account, to_account, amount_cents, source, operation, tx_id

-- Only one may delete postings: another run waits here.
-- name: unlock
UPDATE {prefix}meta SET value = ? WHERE name = 'dropping'

-- name: note_folded
UPDATE {prefix}slices SET folded_at_millis = ?, calls_digest = ? WHERE day = ? AND last_id = ?

-- name: count_fold
INSERT INTO {prefix}meta AS kept (name, value) VALUES ('folds', 1) ON CONFLICT (name) DO UPDATE SET value = kept.value + 1

-- An index holds the bodies that are there.
-- name: drop_bodies
UPDATE {prefix}calls SET body = NULL WHERE body IS NOT NULL AND at_millis < ?

-- name: drop_bodies_of_anomalies
UPDATE {prefix}anomalies SET body = ? WHERE resolved_at_millis IS NOT NULL AND last_at_millis < ? AND length(body) > 0

-- The functions give up a lock soon; what they do with it may take long.
-- name: patient
SELECT set_config('statement_timeout', '0', true), set_config('enable_seqscan', 'on', true),
    set_config('enable_hashjoin', 'on', true), set_config('work_mem', '64MB', true)

-- Days without a partition, from today to so many ahead.
-- name: missing
SELECT CAST(day AS text) FROM (
    SELECT CAST(to_timestamp(CAST(number AS double precision) * 86400) AT TIME ZONE 'UTC' AS date) AS day
    FROM generate_series(
        CAST(floor(extract(epoch FROM clock_timestamp()) / 86400) AS bigint),
        CAST(floor(extract(epoch FROM clock_timestamp()) / 86400) AS bigint) + CAST(? AS bigint)
    ) AS number
) AS wanted WHERE to_regclass('{prefix}postings_' || to_char(day, 'YYYYMMDD')) IS NULL ORDER BY day

-- name: make
SELECT {prefix}make_day(CAST(CAST(? AS text) AS date))

-- name: fold
SELECT reason, postings FROM {prefix}fold_day(CAST(CAST(? AS text) AS date))

-- A copy that somebody made may have a name that is no day.
-- name: partitioned
SELECT day - date '1970-01-01' FROM (
    SELECT to_date(substring(CAST(relname AS text) FROM '_(2[0-9][0-9][0-9][0-9][0-9][0-9][0-9])$'), 'YYYYMMDD') AS day
    FROM pg_inherits JOIN pg_class AS part ON part.oid = inhrelid WHERE inhparent = to_regclass('{prefix}postings')
) AS parts WHERE day IS NOT NULL
