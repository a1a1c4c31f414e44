-- The sequences of the tables whose column id has one.

-- In this order: the statement's snapshot is older than what it reads of a sequence, so that no id that is given out
-- meanwhile makes a sequence look as if it were behind.
-- name: compare
SELECT '{table}', sequence, (SELECT max(id) FROM {table}),
    CASE WHEN has_sequence_privilege(sequence, 'SELECT, USAGE')
        THEN coalesce(pg_sequence_last_value(CAST(sequence AS regclass)), 0) END,
    has_sequence_privilege(sequence, 'UPDATE')
FROM (SELECT pg_get_serial_sequence('{table}', 'id') AS sequence) AS named

-- name: sequence
CAST(CAST(? AS text) AS regclass)

-- A process that does not get the lock leaves it to the one that has it. A sequence is never set lower: nextval is
-- above all that it has given out. The lock comes first, and the sequence is read after it.
-- name: advance
WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(hashtext('{prefix}identities')) AS is_mine)
SELECT setval({sequence}, greatest(nextval({sequence}), CAST(? AS bigint))) FROM alone
WHERE is_mine AND coalesce(pg_sequence_last_value({sequence}), 0) < CAST(? AS bigint)
