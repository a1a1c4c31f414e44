-- What prepares large tables of PostgreSQL beside calls. Each statement is committed by itself.

-- One process at a time. A blocking wait would hold a snapshot, and a concurrent build waits for snapshots to end.
-- name: lock
SELECT pg_try_advisory_lock(hashtext('{prefix}online'))

-- name: bytes
SELECT coalesce(sum(pg_relation_size(to_regclass('{prefix}' || name))), 0)
FROM unnest(CAST(? AS text[])) AS name

-- Of an index: whether its table can be built on, whether the index is there, and what it is called if it is unusable.
-- name: index
SELECT coalesce((SELECT relkind = 'r' FROM pg_class WHERE oid = to_regclass(?)), false),
    to_regclass(?) IS NOT NULL,
    (SELECT CAST(CAST(indexrelid AS regclass) AS text) FROM pg_index WHERE indexrelid = to_regclass(?) AND NOT indisvalid)

-- Postings end before a day that is far enough away, unless an account is there already: its calls would be refused. The
-- migration then attaches them as a partition without reading them.
-- name: bound
DO $$
    DECLARE
        today CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) / 86400);
        ends CONSTANT bigint := (today + {days}) * 86400000;
    BEGIN
        IF (SELECT relkind FROM pg_class WHERE oid = to_regclass('{prefix}postings')) <> 'r' THEN
            RETURN;
        ELSIF EXISTS (
            SELECT FROM pg_constraint
            WHERE conrelid = to_regclass('{prefix}postings') AND conname = '{prefix}postings_before_ends'
        ) THEN
            IF (SELECT value FROM {prefix}meta WHERE name = 'days_since') > today + 1 THEN
                RETURN;
            END IF;
            ALTER TABLE {prefix}postings DROP CONSTRAINT {prefix}postings_before_ends;
        END IF;
        IF EXISTS (SELECT FROM {prefix}accounts WHERE at_millis >= ends)
            OR EXISTS (SELECT FROM {prefix}clocks WHERE at_millis >= ends)
            OR EXISTS (SELECT FROM {prefix}postings WHERE at_millis >= ends)
        THEN
            RETURN;
        END IF;
        EXECUTE 'ALTER TABLE {prefix}postings ADD CONSTRAINT {prefix}postings_before_ends CHECK (at_millis < ' || ends
            || ') NOT VALID';
        INSERT INTO {prefix}meta (name, value) VALUES ('days_since', today + {days})
            ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    END
$$

-- name: unbounded
SELECT 1 FROM pg_class WHERE oid = to_regclass('{prefix}postings') AND relkind = 'r' AND NOT EXISTS (
    SELECT FROM pg_constraint
    WHERE conrelid = pg_class.oid AND conname = '{prefix}postings_before_ends' AND convalidated
)

-- name: unproven
SELECT 1 FROM pg_constraint
WHERE conrelid = to_regclass('{prefix}postings') AND conname = '{prefix}postings_before_ends' AND NOT convalidated

-- name: prove
ALTER TABLE {prefix}postings VALIDATE CONSTRAINT {prefix}postings_before_ends
