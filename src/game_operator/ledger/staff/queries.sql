-- What is read of bets and accounts.

-- name: bet
SELECT {bet_columns} FROM {prefix}bets WHERE source = ? AND bet_id = ?

-- name: claim_at
SELECT at_millis FROM {prefix}calls WHERE source = ? AND operation = 'deposit' AND tx_id = ?

-- name: anomaly_at
SELECT last_at_millis FROM {prefix}anomalies WHERE source = ? AND kind = ? AND operation = ? AND digest = ?

-- Further conditions follow. The pair is a range of each index that ends with the time.
-- name: page_of_bets
SELECT {bet_columns} FROM {prefix}bets WHERE (opened_at_millis, bet_id) > (?, ?) AND opened_at_millis < ?

-- name: sources
SELECT name FROM {prefix}sources

-- All calls of a bet: its withdraw and its deposit by the identities that it keeps, the others by a partial index, whose
-- predicate stands here as it stands there. What is sorted is the calls of one bet.
-- name: own_call
SELECT {call_columns}, body FROM {prefix}calls
WHERE source = ? AND operation = ? AND tx_id = ? AND bet_id = ? AND code IS NULL AND action = 'BET'

-- name: calls_of_bet
{own_call}
UNION ALL {own_call}
UNION ALL SELECT {call_columns}, body FROM {prefix}calls
WHERE bet_id = ? AND source = ?
    AND bet_id IS NOT NULL AND (operation NOT IN ('withdraw', 'deposit') OR code IS NOT NULL OR action <> 'BET')
ORDER BY at_millis, operation DESC, tx_id

-- The posting of a call has its account and its time.
-- name: posting_of_call
SELECT id, operation, tx_id, {account}, {delta}, at_millis FROM {prefix}postings AS p
WHERE {account} = ? AND at_millis = ? AND source = ? AND operation = ? AND tx_id = ?

-- Not sorted: to PostgreSQL, as a listing sets it, anything is better than a sort, also to walk the table by id.
-- name: anomalies_of_bet
SELECT {anomaly_columns} FROM {prefix}anomalies WHERE bet_id = ? AND source = ?

-- name: balance_and_time
SELECT balance_cents, at_millis FROM {prefix}accounts WHERE account = ?
UNION ALL SELECT NULL, at_millis FROM {prefix}clocks WHERE account = ?

-- The latest movements, with the bets that their calls named.
-- name: movements_of_account
SELECT p.operation, p.tx_id, p.source, c.bet_id, p.account, p.delta, p.at_millis FROM (
    SELECT id, operation, tx_id, source, {account} AS account, {delta} AS delta, at_millis FROM {prefix}postings AS p
    WHERE {account} = ? ORDER BY at_millis DESC, id DESC LIMIT ?
) AS p LEFT JOIN {prefix}calls AS c ON c.source = p.source AND c.operation = p.operation AND c.tx_id = p.tx_id
ORDER BY p.at_millis DESC, p.id DESC

-- name: carried
SELECT 'carry', account, '', NULL, account, cents, at_millis FROM {prefix}carried WHERE account = ?

-- The index of open bets, of which there are few, and no table.
-- name: open_bets
SELECT {bet_columns} FROM {prefix}bets WHERE account = ? AND state = 'OPEN' ORDER BY opened_at_millis, bet_id LIMIT ?

-- What a transaction begins with that reads in PostgreSQL. Settings are for it alone: behind a pooler the session belongs
-- to others as well.
-- name: begin
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL timezone = 'UTC'

-- Whole tables are read, so what the database or the user is set to for short statements does not hold.
-- name: begin_survey
{begin}; SET LOCAL statement_timeout = 0; SET LOCAL work_mem = '64MB'

-- Page after page looks up what belongs to its rows. A plan must never read a whole table for one of them. The lock comes
-- before the snapshot: postings of a day that is folded in between would be in neither, not yet carried and gone. With a
-- lower cost of random pages, as is usual on an SSD, PostgreSQL would rather read whole tables once for each page.
-- name: begin_pages
{begin}; LOCK TABLE ONLY {prefix}postings IN ACCESS SHARE MODE; SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = off; SET LOCAL enable_mergejoin = off;
SET LOCAL random_page_cost = 4; SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0

-- A page follows an index, and sorts no more than what has the same time: also where no statistics say so.
-- name: begin_listing
{begin}; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; SET LOCAL jit = off

-- The lock is as above: what is folded between two statements would be in neither.
-- name: begin_history
{begin_listing}; LOCK TABLE ONLY {prefix}postings IN ACCESS SHARE MODE
