-- Stops of bets: the one that holds, and how they begin and end.

-- name: now
SELECT code, stopped_by, stop_reason, stopped_at_millis FROM {prefix}bet_stops WHERE started_at_millis IS NULL

-- Numbers are given out one at a time.
-- name: alone
SELECT pg_advisory_xact_lock(hashtext('{prefix}bet_stops'))

-- Beside the fence, above every version: the quick statement of PostgreSQL asks for both at once.
-- name: mark
INSERT INTO {prefix}meta (name, value) VALUES ('oldest_writer_of_bets', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: begin
INSERT INTO {prefix}bet_stops (number, code, stopped_by, stop_reason, stopped_at_millis)
SELECT COALESCE(MAX(number), 0) + 1, CAST(? AS text), CAST(? AS text), CAST(? AS text), CAST(? AS bigint) FROM {prefix}bet_stops

-- name: end
UPDATE {prefix}bet_stops SET started_by = ?, start_reason = ?, started_at_millis = ? WHERE started_at_millis IS NULL

-- What an account has spent. Indexes lead to all of it, and that of bets holds every column that is read.

-- Only a CLOSED bet has an amount won: to ask for it is quicker than to compare texts. A RAIN that was rolled back was
-- never a wager; one that is SPENT has none of these states.
-- name: bets
SELECT COALESCE(SUM(wager_cents) FILTER (WHERE won_cents IS NOT NULL), 0) AS closed,
    COALESCE(SUM(won_cents), 0) AS won,
    COALESCE(SUM(wager_cents) FILTER (WHERE won_cents IS NULL AND state = 'OPEN'), 0) AS open,
    COALESCE(SUM(wager_cents) FILTER (WHERE won_cents IS NULL AND state = 'ROLLED_BACK' AND action <> 'RAIN'), 0) AS back
FROM {prefix}bets WHERE account = ? AND opened_at_millis >= ?

-- The condition stands here as in the index.
-- name: beside
(operation = 'pay' OR (operation = 'deposit' AND action <> 'BET'))

-- name: claims
SELECT COALESCE(SUM(amount_cents), 0) AS claimed FROM {prefix}calls
WHERE {beside} AND operation = 'deposit' AND code IS NULL AND account = ? AND at_millis >= ?

-- A payment by hand comes after its bet. What was taken back from a bet that was rolled back is less of a refund.
-- name: payments
SELECT COALESCE(SUM(amount_cents) FILTER (WHERE state = 'CLOSED' OR amount_cents > 0), 0) AS won,
    COALESCE(SUM(amount_cents) FILTER (WHERE state <> 'CLOSED' AND amount_cents < 0), 0) AS back
FROM (
    SELECT bet_id, source, amount_cents FROM {prefix}calls AS paid
    WHERE {beside} AND operation = 'pay' AND account = ? AND at_millis >= ?
) AS paid JOIN {prefix}bets AS bet ON bet.bet_id = paid.bet_id AND bet.source = paid.source
WHERE bet.opened_at_millis >= ?

-- name: sqlite_spent
SELECT bets.closed, bets.won, bets.open, bets.back, claims.claimed, payments.won, payments.back
FROM ({bets}) AS bets, ({claims}) AS claims, ({payments}) AS payments

-- A statement with set_config, though never called, is not shared out to workers: to start them takes longer than to read.
-- name: postgres_spent
SELECT bets.closed, bets.won, bets.open, bets.back, claims.claimed, payments.won, payments.back
FROM ({bets}) AS bets, ({claims}) AS claims, ({payments}) AS payments
WHERE (SELECT set_config('jit', 'off', true) WHERE false) IS NULL
