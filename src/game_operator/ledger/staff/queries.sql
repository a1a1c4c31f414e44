-- What is read of bets and accounts.

-- name: bet
SELECT {bet_columns} FROM {prefix}bets WHERE source = ? AND bet_id = ?

-- name: claim_at
SELECT at_millis FROM {prefix}calls WHERE source = ? AND operation = 'deposit' AND tx_id = ?

-- name: anomaly_at
SELECT last_at_millis FROM {prefix}anomalies WHERE source = ? AND kind = ? AND operation = ? AND digest = ?

-- The first bound of the time is one that the index can use.
-- name: page_of_bets
SELECT {bet_columns} FROM {prefix}bets WHERE {of_source} AND opened_at_millis >= ? AND opened_at_millis < ?
    AND (opened_at_millis > ? OR bet_id > ?)
ORDER BY opened_at_millis, bet_id LIMIT ?

-- name: calls_of_bet
SELECT {call_columns} FROM {prefix}calls WHERE source = ? AND bet_id = ? ORDER BY at_millis, operation DESC, tx_id

-- name: movement
SELECT p.operation, p.tx_id, p.source, c.bet_id, {account}, {delta}, p.at_millis FROM {prefix}postings AS p

-- name: of_call
{prefix}calls AS c ON c.source = p.source AND c.operation = p.operation AND c.tx_id = p.tx_id

-- name: movements_of_bet
{movement} JOIN {of_call} WHERE c.source = ? AND c.bet_id = ? ORDER BY p.id

-- name: anomalies_of_bet
SELECT {anomaly_columns} FROM {prefix}anomalies WHERE source = ? AND bet_id = ? ORDER BY id

-- name: balance_and_time
SELECT balance_cents, at_millis FROM {prefix}accounts WHERE account = ?
UNION ALL SELECT NULL, at_millis FROM {prefix}clocks WHERE account = ?

-- name: movements_of_account
{movement} LEFT JOIN {of_call} WHERE p.to_account = ? OR p.from_account = ? ORDER BY p.id DESC LIMIT ?

-- name: carried
SELECT 'carry', account, '', NULL, account, cents, at_millis FROM {prefix}carried WHERE account = ?

-- name: open_bets
SELECT {bet_columns} FROM {prefix}bets WHERE account = ? AND state = 'OPEN' ORDER BY opened_at_millis, bet_id LIMIT ?

-- What a transaction begins with that reads in PostgreSQL. Settings are for it alone: behind a pooler the session belongs
-- to others as well.
-- name: begin
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL timezone = 'UTC'

-- Whole tables are read, so what the database or the user is set to for short statements does not hold.
-- name: begin_survey
{begin}; SET LOCAL statement_timeout = 0; SET LOCAL work_mem = '64MB'

-- Page after page looks up what belongs to its rows. A plan must never read a whole table for one of them.
-- name: begin_pages
{begin}; SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = off; SET LOCAL enable_mergejoin = off;
SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0

-- A page follows an index, and sorts no more than what has the same time: also where no statistics say so.
-- name: begin_listing
{begin}; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; SET LOCAL jit = off
