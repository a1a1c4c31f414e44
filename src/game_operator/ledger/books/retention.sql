-- The statements of retention.

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
