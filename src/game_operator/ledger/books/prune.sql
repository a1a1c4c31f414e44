-- The statements of prune.

-- Whether there is anything that is not sealed, or sealed and not folded, from before a time and its day.
-- name: any_old
SELECT 1 WHERE EXISTS (SELECT 1 FROM {prefix}slices WHERE folded_at_millis IS NULL AND last_id > 0 AND day <= ?)
    OR (
        SELECT at_millis FROM {prefix}postings
        WHERE id > COALESCE((SELECT value FROM {prefix}meta WHERE name = 'checkpoint_position'), 0) ORDER BY id LIMIT 1
    ) < ?

-- name: slice
SELECT findings FROM {prefix}slices WHERE day = ? AND last_id = ? AND folded_at_millis IS NULL

-- A posting without its call stays: folded, the books would seem sound.
-- name: old
FROM {prefix}postings WHERE id >= ? AND id <= ? AND at_millis >= ? AND at_millis < ?
    AND EXISTS (
        SELECT 1 FROM {prefix}calls AS c
        LEFT JOIN {prefix}bets AS b ON b.source = c.source AND b.bet_id = c.bet_id AND c.operation = 'withdraw'
        WHERE c.source = {prefix}postings.source AND c.operation = {prefix}postings.operation
            AND c.tx_id = {prefix}postings.tx_id
            AND (b.state IS NULL OR b.state <> 'OPEN')
    )

-- name: has_old
SELECT 1 {old} LIMIT 1

-- name: take_old
DELETE {old} RETURNING id, {account}, {delta}, at_millis

-- name: highest
SELECT COALESCE((SELECT MAX(id) FROM {prefix}postings), 0), value FROM {prefix}meta WHERE name = 'checkpoint_position'

-- Only one may delete postings: another run of prune waits here, and then finds nothing left.
-- name: unlock
UPDATE {prefix}meta SET value = ? WHERE name = 'pruning'

-- name: count_fold
INSERT INTO {prefix}meta AS kept (name, value) VALUES ('folds', 1) ON CONFLICT (name) DO UPDATE SET value = kept.value + 1

-- What is left of a slice, and what had all of it folded.
-- name: leave
UPDATE {prefix}slices SET day = ?, last_id = ?, first_id = ?, count = ?, billions = ?, cents = ?, digest = ?
WHERE day = ? AND last_id = ?

-- name: forget
DELETE FROM {prefix}slices WHERE day = ? AND last_id = ?

-- All postings of the ids in between are gone, so the close stands for the same ones as before.
-- name: lower_position
UPDATE {prefix}closes SET position = ?, first_id = CASE WHEN first_id > ? + 1 THEN ? + 1 ELSE first_id END
WHERE number = (SELECT MAX(number) FROM {prefix}closes) AND position > ?

-- name: lower_mark
UPDATE {prefix}meta SET value = ? WHERE name = 'checkpoint_position' AND value > ?

-- name: lower_checkpoints
UPDATE {prefix}checkpoints SET last_id = ? WHERE last_id > ?

-- name: lower_carried
UPDATE {prefix}carried SET last_id = ? WHERE last_id > ?

-- Bodies by time; the index holds those that are there.
-- name: bodies_end
SELECT at_millis FROM {prefix}calls WHERE body IS NOT NULL AND at_millis >= ? AND at_millis < ?
ORDER BY at_millis LIMIT 1 OFFSET ?

-- name: drop_bodies
UPDATE {prefix}calls SET body = NULL WHERE body IS NOT NULL AND at_millis >= ? AND at_millis < ?
    AND NOT (operation = 'withdraw' AND EXISTS (
        SELECT 1 FROM {prefix}bets AS b
        WHERE b.source = {prefix}calls.source AND b.bet_id = {prefix}calls.bet_id AND b.state = 'OPEN'
    ))
RETURNING 1

-- name: anomalies
SELECT id FROM {prefix}anomalies WHERE id > ? AND resolved_at_millis IS NOT NULL AND last_at_millis < ?
    AND length(body) > 0 ORDER BY id LIMIT ?

-- name: drop_body
UPDATE {prefix}anomalies SET body = ? WHERE id = ?
