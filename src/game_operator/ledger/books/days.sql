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

-- A copy that somebody made may have a name that is no day.
-- name: partitioned
SELECT day - date '1970-01-01' FROM (
    SELECT to_date(substring(CAST(relname AS text) FROM '_(2[0-9][0-9][0-9][0-9][0-9][0-9][0-9])$'), 'YYYYMMDD') AS day
    FROM pg_inherits JOIN pg_class AS part ON part.oid = inhrelid WHERE inhparent = to_regclass('{prefix}postings')
) AS parts WHERE day IS NOT NULL
