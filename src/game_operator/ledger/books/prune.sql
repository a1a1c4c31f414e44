-- The statements of prune.

-- name: note
INSERT INTO {prefix}meta AS kept (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE kept.value < excluded.value

-- name: first
SELECT MIN(id) FROM {prefix}postings

-- All postings of the ids in between are gone, so the close stands for the same ones as before.
-- name: lower_position
UPDATE {prefix}closes SET position = highest.id,
    first_id = CASE WHEN first_id > highest.id + 1 THEN highest.id + 1 ELSE first_id END
FROM (SELECT COALESCE(MAX(id), 0) AS id FROM {prefix}postings) AS highest
WHERE number = (SELECT MAX(number) FROM {prefix}closes) AND position > highest.id

-- A posting without its call stays: folded, the books would seem sound.
-- name: old
FROM {prefix}postings WHERE id > ? AND id <= ? AND at_millis < ? AND EXISTS (
    SELECT 1 FROM {prefix}calls AS c
    LEFT JOIN {prefix}bets AS b ON b.source = c.source AND b.bet_id = c.bet_id AND c.operation = 'withdraw'
    WHERE c.source = {prefix}postings.source AND c.operation = {prefix}postings.operation
        AND c.tx_id = {prefix}postings.tx_id
        AND (b.state IS NULL OR b.state <> 'OPEN')
)

-- name: any_old
SELECT 1 {old} LIMIT 1

-- name: take_old
DELETE {old} RETURNING id, {account}, {delta}, at_millis

-- name: unlock
UPDATE {prefix}meta SET value = ? WHERE name = 'pruning'

-- name: carry
INSERT INTO {prefix}carried AS kept (account, cents, last_id, at_millis) VALUES (?, ?, ?, ?)
ON CONFLICT (account) DO UPDATE SET cents = kept.cents + excluded.cents, last_id = excluded.last_id,
    at_millis = excluded.at_millis

-- name: calls
SELECT {c_identity}, c.at_millis, CASE WHEN c.body IS NULL AND c.balance_cents IS NULL THEN 0 ELSE 1 END, b.state
FROM {prefix}calls AS c
LEFT JOIN {prefix}bets AS b ON b.source = c.source AND b.bet_id = c.bet_id AND c.operation = 'withdraw'
WHERE ({c_identity}) > (?, ?, ?) ORDER BY {c_identity} LIMIT ?

-- name: drop_replies
UPDATE {prefix}calls SET body = NULL, balance_cents = NULL
WHERE ({identity}) > (?, ?, ?) AND ({identity}) <= (?, ?, ?) AND at_millis < ?
    AND (body IS NOT NULL OR balance_cents IS NOT NULL) AND NOT (operation = 'withdraw' AND EXISTS (
        SELECT 1 FROM {prefix}bets AS b
        WHERE b.source = {prefix}calls.source AND b.bet_id = {prefix}calls.bet_id AND b.state = 'OPEN'
    ))

-- name: anomalies
SELECT id FROM {prefix}anomalies WHERE id > ? AND resolved_at_millis IS NOT NULL AND last_at_millis < ?
    AND length(body) > 0 ORDER BY id LIMIT ?

-- name: drop_body
UPDATE {prefix}anomalies SET body = ? WHERE id = ?
