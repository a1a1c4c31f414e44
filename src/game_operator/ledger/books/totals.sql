-- What totals are made of: the postings that no close has stored, and what closes have stored.

-- Of an account whose time was brought back, what was posted before says nothing.
-- name: newest
SELECT at_millis FROM {prefix}postings WHERE NOT EXISTS (
    SELECT 1 FROM {prefix}corrections AS c
    WHERE c.account = {account_of_posting} AND c.last_posting_id >= {prefix}postings.id
) ORDER BY id DESC LIMIT 1

-- name: last_close
SELECT number, position, before_day, first_id, at_millis FROM {prefix}closes ORDER BY number DESC LIMIT 1

-- name: highest
SELECT MAX(id) FROM {prefix}postings

-- Each kind is a column of a row of totals. It rests on what never changes once the posting is there, as far as can be.
-- name: kind
CASE
    WHEN c.tx_id IS NULL THEN 'unknown'
    WHEN c.operation = 'open' THEN 'openings'
    WHEN c.operation = 'adjust' THEN 'adjustments'
    WHEN c.operation = 'pay' THEN 'corrections'
    WHEN c.operation = 'withdraw' THEN CASE WHEN {is_spent} THEN 'rain' ELSE 'wagers' END
    WHEN c.operation = 'rollback' THEN CASE WHEN {is_spent} THEN 'rain_refunds' ELSE 'refunds' END
    WHEN c.operation = 'reconcile' THEN CASE WHEN b.state = 'ROLLED_BACK' THEN 'refunds' ELSE 'wins' END
    WHEN c.operation <> 'deposit' THEN 'unknown'
    WHEN {is_claim} THEN CASE c.action WHEN 'FREE_BET_CLAIM' THEN 'free_bets' WHEN 'JACKPOT' THEN 'jackpots' ELSE 'claims' END
    ELSE 'wins'
END

-- A bet has the instance, the game and the currency of its withdraw. A claim only names a bet, which may come later, so
-- it has its own: what is stored of a day must not depend on when it was closed.
-- name: call_columns
COALESCE(CASE WHEN NOT {is_claim} THEN b.instance_id END, c.instance_id, '') AS instance,
    COALESCE(CASE WHEN NOT {is_claim} THEN b.game END, c.game, '') AS game,
    COALESCE(CASE WHEN {is_claim} OR b.bet_id IS NULL THEN c.currency ELSE b.currency END, 'unknown') AS currency,
    {kind} AS kind

-- name: posted
SELECT p.at_millis / 86400000 AS day, p.source AS source, {call_columns},
    CASE WHEN p.id > ? AND p.at_millis < ? THEN 1 ELSE 0 END AS late, {delta} AS cents
FROM {prefix}postings AS p
LEFT JOIN {prefix}calls AS c ON c.source = p.source AND c.operation = p.operation AND c.tx_id = p.tx_id
LEFT JOIN {prefix}bets AS b ON b.source = c.source AND b.bet_id = c.bet_id
WHERE p.id >= ? AND p.id <= ? AND NOT (p.id <= ? AND p.at_millis < ?)
    AND p.at_millis >= ? AND p.at_millis < ? AND (CAST(? AS text) IS NULL OR p.source = CAST(? AS text))

-- Summed in two halves: SQLite stops at a sum beyond 63 bits, which two large amounts reach.
-- name: live
SELECT {{columns}}, COUNT(*), SUM(cents / 1000000000), SUM(cents - cents / 1000000000 * 1000000000)
FROM ({posted}) AS posted GROUP BY {{columns}}

-- name: stored_days
SELECT DISTINCT day FROM {prefix}totals WHERE day >= ?

-- name: stored
SELECT {{columns}}, SUM(count), SUM(billions), SUM(cents) FROM (
    SELECT day, source, instance_id AS instance, game, currency, kind, late, count, billions, cents FROM {prefix}totals
    WHERE day >= ? AND day < ? AND (CAST(? AS text) IS NULL OR source = CAST(? AS text))
) AS kept GROUP BY {{columns}}

-- name: first_open
SELECT MIN(id) FROM {prefix}postings WHERE id >= ? AND id <= ? AND at_millis >= ?

-- name: insert_close
INSERT INTO {prefix}closes (number, position, before_day, first_id, at_millis) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING RETURNING number

-- name: insert_total
INSERT INTO {prefix}totals (
    close_number, line, day, source, instance_id, game, currency, kind, late, count, billions, cents
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- PostgreSQL: whoever has taken an id has locked the table so that this waits for the end of its transaction. All
-- others wait behind us, so not for long.
-- name: brief
SET LOCAL lock_timeout = '1s'

-- name: lock
LOCK TABLE {prefix}postings IN SHARE MODE
