-- Partitions of postings by day, through the functions of the schema.

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

-- name: drop
SELECT {prefix}drop_day(CAST(CAST(? AS text) AS date))

-- Days that have a partition, attached or not. A copy that somebody made may have a name that is no day.
-- name: days
SELECT day, day - date '1970-01-01' AS number, EXISTS (SELECT FROM pg_inherits WHERE inhrelid = part.oid) AS is_attached
FROM (
    SELECT oid, to_date(substring(CAST(relname AS text) FROM '_(2[0-9][0-9][0-9][0-9][0-9][0-9][0-9])$'), 'YYYYMMDD') AS day
    FROM pg_class
    WHERE relkind = 'r' AND starts_with(CAST(relname AS text), '{prefix}postings_2')
        AND length(relname) = length('{prefix}postings_') + 8
        AND (relnamespace, relowner) = (
            SELECT relnamespace, relowner FROM pg_class WHERE oid = to_regclass('{prefix}postings')
        )
) AS part WHERE day IS NOT NULL

-- name: detached
SELECT CAST(day AS text) FROM ({days}) AS known WHERE NOT is_attached ORDER BY day

-- name: attached
SELECT number FROM ({days}) AS known WHERE is_attached

-- name: foldable
SELECT CAST(day AS text) FROM ({days}) AS known WHERE is_attached
    AND number <= floor(extract(epoch FROM clock_timestamp()) / 86400) - 91
    AND number < (SELECT MAX(before_day) FROM {prefix}closes)
    AND NOT EXISTS (
        SELECT FROM {prefix}bets WHERE state = 'OPEN' AND opened_at_millis >= number * CAST(86400000 AS bigint)
            AND opened_at_millis < (number + 1) * CAST(86400000 AS bigint)
    ) ORDER BY day

-- Two that write one file at once could leave a part of it under its name.
-- name: export_alone
SELECT pg_try_advisory_xact_lock(hashtext('{prefix}export'))

-- name: export
COPY (SELECT * FROM {prefix}postings_{{day}} ORDER BY id) TO STDOUT (FORMAT csv, HEADER)
