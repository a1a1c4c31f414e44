-- What totals are made of: the postings that no close has stored, and what closes have stored.

-- Of an account whose time was brought back, what was posted before says nothing.
-- name: newest
SELECT at_millis FROM {prefix}postings WHERE NOT EXISTS (
    SELECT 1 FROM {prefix}corrections AS c
    WHERE c.account = {account_of_posting} AND c.last_posting_id >= {prefix}postings.id
) ORDER BY id DESC LIMIT 1

-- name: last_close
SELECT number, position, before_day, first_id, since_day, at_millis FROM {prefix}closes ORDER BY number DESC LIMIT 1

-- name: highest
SELECT MAX(id) FROM {prefix}postings

-- name: pruned_before
SELECT MAX(value) FROM {prefix}meta WHERE name = 'pruned_before'

-- Each kind is a column of a row of totals. It rests on what never changes once the posting is there, as far as can be.
-- name: kind
CASE
    WHEN c.tx_id IS NULL THEN 'unknown'
    WHEN p.operation = 'open' THEN 'openings'
    WHEN p.operation = 'adjust' THEN 'adjustments'
    WHEN p.operation = 'pay' THEN 'corrections'
    WHEN p.operation = 'withdraw' THEN CASE WHEN {is_spent} THEN 'rain' ELSE 'wagers' END
    WHEN p.operation = 'rollback' THEN CASE WHEN {is_spent} THEN 'rain_refunds' ELSE 'refunds' END
    WHEN p.operation = 'reconcile' THEN CASE WHEN b.state = 'ROLLED_BACK' THEN 'refunds' ELSE 'wins' END
    WHEN p.operation <> 'deposit' THEN 'unknown'
    WHEN {is_claim} THEN CASE c.action WHEN 'FREE_BET_CLAIM' THEN 'free_bets' WHEN 'JACKPOT' THEN 'jackpots' ELSE 'claims' END
    ELSE 'wins'
END

-- A bet has the instance, the game and the currency of its withdraw. A claim only names a bet, which may come later, so
-- it has its own: what is stored of a day must not depend on when it was closed.
-- name: posted
SELECT p.at_millis / 86400000 AS day, p.source AS source,
    COALESCE(CASE WHEN NOT {is_claim} THEN b.instance_id END, c.instance_id, '') AS instance,
    COALESCE(CASE WHEN NOT {is_claim} THEN b.game END, c.game, '') AS game,
    COALESCE(CASE WHEN {is_claim} OR b.bet_id IS NULL THEN c.currency ELSE b.currency END, 'unknown') AS currency,
    {kind} AS kind,
    CASE WHEN p.id > ? AND p.at_millis < ? THEN 1 ELSE 0 END AS late,
    {delta} AS cents
FROM {prefix}postings AS p
LEFT JOIN {prefix}calls AS c ON c.source = p.source AND c.operation = p.operation AND c.tx_id = p.tx_id
LEFT JOIN {prefix}bets AS b ON b.source = c.source AND b.bet_id = c.bet_id
WHERE p.id >= ? AND p.id <= ? AND NOT (p.id <= ? AND p.at_millis < ?)
    AND p.at_millis >= ? AND p.at_millis < ? AND (CAST(? AS text) IS NULL OR p.source = CAST(? AS text))

-- Summed in two halves: SQLite stops at a sum beyond 63 bits, which two large amounts reach.
-- name: live
SELECT {{columns}}, COUNT(*), SUM(cents / 1000000000), SUM(cents - cents / 1000000000 * 1000000000)
FROM ({posted}) AS posted GROUP BY {{columns}}

-- What was folded before the first close.
-- name: carried
SELECT {{columns}}, COUNT(*), SUM(cents / 1000000000), SUM(cents - cents / 1000000000 * 1000000000)
FROM (
    SELECT at_millis / 86400000 AS day, '' AS source, '' AS instance, '' AS game, 'unknown' AS currency,
        'carried' AS kind, 0 AS late, cents
    FROM {prefix}carried WHERE last_id <= ? AND at_millis >= ? AND at_millis < ? AND COALESCE(CAST(? AS text), '') = ''
) AS folded GROUP BY {{columns}}

-- name: stored
SELECT {{columns}}, SUM(count), SUM(billions), SUM(cents) FROM (
    SELECT day, source, instance_id AS instance, game, currency, kind, late, count, billions, cents FROM {prefix}totals
    WHERE day >= ? AND day < ? AND (CAST(? AS text) IS NULL OR source = CAST(? AS text))
) AS kept GROUP BY {{columns}}

-- name: first_open
SELECT MIN(id) FROM {prefix}postings WHERE id >= ? AND id <= ? AND at_millis >= ?

-- name: insert_close
INSERT INTO {prefix}closes (number, position, before_day, first_id, since_day, at_millis) VALUES (?, ?, ?, ?, ?, ?)

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

-- PostgreSQL: one close at a time, and it reads whole tables, unlike calls.
-- name: alone
SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true),
    set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true), set_config('work_mem', '64MB', true)

-- name: one_at_a_time
SELECT pg_advisory_xact_lock(hashtext('{prefix}close'))
