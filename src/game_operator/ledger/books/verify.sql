-- The questions that verify asks of the books, page by page, and above them what several of them hold.
-- Amounts are summed in two halves: SQLite stops at a sum beyond 63 bits, which two large balances reach.

-- What the partial index of calls by bet holds.
-- name: is_of_bet
bet_id IS NOT NULL AND (operation NOT IN ('withdraw', 'deposit') OR code IS NOT NULL OR action <> 'BET')

-- Whether a reconciliation has settled the bet of c: then the deposit that comes after it moves nothing
-- (docs/decisions/0015). It is counted, because PostgreSQL would read all such calls for a page to answer EXISTS.
-- name: is_reconciled
(
    SELECT COUNT(*) FROM {prefix}calls
    WHERE bet_id = c.bet_id AND source = c.source AND operation = 'reconcile' AND {is_of_bet}
) > 0

-- What a call moves by its own account. Its bet is looked up only where that matters.
-- name: expected
CASE
    WHEN c.code IS NOT NULL OR c.action = '' THEN 0
    WHEN c.operation = 'withdraw' THEN -c.amount_cents
    WHEN c.operation = 'rollback' THEN COALESCE((
        SELECT wager_cents FROM {prefix}bets
        WHERE source = c.source AND bet_id = c.bet_id AND state = 'ROLLED_BACK'
    ), 0)
    WHEN c.operation = 'deposit' AND c.action = 'BET' AND c.amount_cents > 0 AND {is_reconciled} THEN 0
    ELSE c.amount_cents END

-- name: calls_with_bets
{prefix}calls AS c LEFT JOIN {prefix}bets AS b ON b.source = c.source AND b.bet_id = c.bet_id

-- A posting has the account and the time of its call. A column itself would be compared as a text, and then SQLite takes
-- no index of an expression.
-- name: posting_of_call
SELECT 1 FROM {prefix}postings AS q WHERE {account_of_q} = COALESCE(c.account, '') AND q.at_millis = c.at_millis
    AND q.source = c.source AND q.operation = c.operation AND q.tx_id = c.tx_id

-- It is counted: to answer NOT EXISTS, PostgreSQL would read all postings for a page, or look for each call's posting in
-- every partition.
-- name: is_not_posted
(SELECT COUNT(*) FROM ({posting_of_call}) AS found) = 0

-- name: moved_elsewhere
SELECT 1 FROM {prefix}postings AS q WHERE {account_of_q} = COALESCE(c.account, '')
    AND q.source = c.source AND q.operation = c.operation AND q.tx_id = c.tx_id

-- name: repaired_elsewhere
r.repaired_player <> b.player_id OR r.repaired_account <> b.account

-- name: bet_fault
CASE
    WHEN b.state = 'TOMBSTONE' THEN CASE
        WHEN b.withdraw_tx_id IS NOT NULL AND (w.tx_id IS NULL OR w.action <> '' OR w.bet_id <> b.bet_id)
            THEN 'tombstone_not_held'
        WHEN COALESCE(r.rollbacks, 0) = 0 THEN 'resolution_missing' END
    WHEN w.tx_id IS NULL OR w.bet_id IS NULL OR w.action = '' THEN 'withdraw_missing'
    WHEN w.bet_id <> b.bet_id OR w.player_id <> b.player_id OR w.account <> b.account OR w.action <> b.action
        OR w.amount_cents <> b.wager_cents THEN 'withdraw_differs'
    WHEN b.state = 'DECLINED' THEN CASE WHEN w.code IS NULL THEN 'withdraw_was_applied' END
    WHEN w.code IS NOT NULL THEN 'withdraw_was_refused'
    WHEN b.settled_by IS NOT NULL AND COALESCE(r.reconciled, 0) = 0 THEN 'resolution_missing'
    WHEN b.state = 'OPEN' AND b.action = 'RAIN' OR b.state = 'SPENT' AND b.action = 'BET' THEN 'wrong_state'
    WHEN b.state IN ('OPEN', 'SPENT') THEN CASE
        WHEN b.deposit_tx_id IS NOT NULL OR b.won_cents IS NOT NULL OR b.settled_at_millis IS NOT NULL
            OR r.refunds + r.reconciled > 0 THEN 'settled_while_open' END
    WHEN b.state = 'ROLLED_BACK' THEN CASE
        WHEN b.settled_at_millis IS NULL OR COALESCE(r.refunds + r.reconciled, 0) = 0 THEN 'resolution_missing'
        WHEN r.refunds + r.reconciled > 1 OR b.deposit_tx_id IS NOT NULL OR b.won_cents IS NOT NULL
            THEN 'settled_twice'
        WHEN r.repaired_cents <> b.wager_cents OR {repaired_elsewhere} THEN 'resolution_differs' END
    WHEN b.won_cents IS NULL OR b.settled_at_millis IS NULL
        OR (d.tx_id IS NULL AND (b.deposit_tx_id IS NOT NULL OR COALESCE(r.reconciled, 0) = 0))
        THEN 'resolution_missing'
    WHEN d.code IS NOT NULL OR d.bet_id <> b.bet_id OR d.player_id <> b.player_id OR d.account <> b.account
        OR d.amount_cents <> b.won_cents THEN 'resolution_differs'
    WHEN r.refunds > 0 OR r.reconciled > 1 THEN 'settled_twice'
    WHEN r.repaired_cents <> b.won_cents OR {repaired_elsewhere} THEN 'resolution_differs'
END

-- A claim names a bet and does not touch it. Whether a deposit of an action of the operator's own is a claim, only its
-- bet can tell.
-- name: call_fault
CASE
    WHEN c.operation = 'deposit' AND c.action <> 'BET' AND (b.deposit_tx_id IS NULL OR b.deposit_tx_id <> c.tx_id)
        THEN NULL
    WHEN b.bet_id IS NULL THEN 'bet_missing'
    WHEN c.operation = 'withdraw' AND (b.withdraw_tx_id IS NULL OR b.withdraw_tx_id <> c.tx_id) THEN 'second_withdraw'
    WHEN c.operation = 'deposit' AND c.code IS NULL AND (b.deposit_tx_id IS NULL OR b.deposit_tx_id <> c.tx_id)
        THEN 'second_deposit'
    WHEN c.operation = 'rollback' AND b.state NOT IN ('ROLLED_BACK', 'TOMBSTONE') THEN 'rollback_of_other_state'
END

-- A withdraw or deposit that its bet should name.
-- name: is_ordinary
c.operation IN ('withdraw', 'deposit') AND c.action = 'BET' AND c.code IS NULL AND c.bet_id IS NOT NULL

-- name: is_other_call
NOT ({is_ordinary})

-- Bets that are right if their withdraw and deposit are. What is settled later than a time is not one of them, because
-- its deposit may have come between two pages.
-- name: is_simple
b.action = 'BET' AND b.settled_by IS NULL AND b.withdraw_tx_id IS NOT NULL AND (
    b.state = 'OPEN' AND b.deposit_tx_id IS NULL AND b.won_cents IS NULL AND b.settled_at_millis IS NULL
    OR b.state = 'CLOSED' AND b.deposit_tx_id IS NOT NULL AND b.won_cents IS NOT NULL
        AND b.settled_at_millis IS NOT NULL AND b.settled_at_millis < ?
) AND (
    SELECT COUNT(*) FROM {prefix}calls WHERE bet_id = b.bet_id AND source = b.source
        AND operation IN ('rollback', 'reconcile') AND {is_of_bet}
) = 0

-- name: marks
SELECT name, value FROM {prefix}meta
WHERE name IN ('checkpoint_position', 'checkpoint_millis', 'verified_millis', 'folds', 'balances_elsewhere')
UNION ALL SELECT 'dropped_before', (MAX(day) + 1) * 86400000 FROM {prefix}slices
WHERE folded_at_millis IS NOT NULL HAVING MAX(day) IS NOT NULL

-- name: sources
SELECT name FROM {prefix}sources

-- The sources of bets, one after the other by their index: the table of sources may have lost one.
-- name: bet_sources
WITH RECURSIVE found (name) AS (
    SELECT MIN(source) FROM {prefix}bets WHERE opened_at_millis IS NOT NULL
    UNION ALL SELECT (
        SELECT MIN(source) FROM {prefix}bets WHERE source > found.name AND opened_at_millis IS NOT NULL
    ) FROM found WHERE found.name IS NOT NULL
) SELECT name FROM found WHERE name IS NOT NULL

-- Where a slice of bets, and of the calls of the same time, ends. The index is by source and time.
-- name: slice_end
SELECT MIN(opened_at_millis) FROM (
    SELECT (
        SELECT opened_at_millis FROM {prefix}bets AS b WHERE b.source = s.name AND b.opened_at_millis > ?
        ORDER BY b.opened_at_millis LIMIT 1 OFFSET ?
    ) AS opened_at_millis FROM ({bet_sources}) AS s
) AS ends

-- Accounts, a page at a time, with the sum of what is posted to each: what is carried of it, and its postings.
-- name: own_accounts
SELECT account, 1 AS owned, balance_cents AS cents, at_millis FROM {prefix}accounts WHERE account {{after}} ? ORDER BY account LIMIT ?

-- name: clocks
SELECT account, 0 AS owned, 0 AS cents, at_millis FROM {prefix}clocks WHERE account {{after}} ? ORDER BY account LIMIT ?

-- name: held
WITH listed AS MATERIALIZED (
    SELECT page.*, (SELECT MAX(last_posting_id) FROM {prefix}corrections AS k WHERE k.account = page.account) AS corrected_id
    FROM ({{page}}) AS page
), {{news}} held AS MATERIALIZED (
    SELECT * FROM listed WHERE {{which}}
)

-- What is not sealed, without a join: to find the postings of each account by their index, SQLite 3.40 would make a Bloom
-- filter, if it has statistics, and its filter of an index of an expression drops rows that match. What is sealed is named
-- as a number, for which PostgreSQL reads few rows of each partition.
-- name: not_sealed
news AS MATERIALIZED (
    SELECT {account_of_p} AS account, p.id, p.at_millis, {delta_of_p} AS moved FROM {prefix}postings AS p
    WHERE p.id > {{position}}
),

-- name: is_moved
account IN (SELECT account FROM news)

-- name: is_any
1 = 1

-- name: posted_in_all
SELECT held.*, p.id AS id, p.at_millis AS posted_at, {delta_of_p} AS moved
FROM held JOIN {prefix}postings AS p ON {account_of_p} = COALESCE(held.account, '')
UNION ALL SELECT held.*, k.last_id, k.at_millis, k.cents
FROM held JOIN {prefix}carried AS k ON k.account = held.account

-- Since the checkpoint: an account's postings rise in id and time, unless its time was brought back.
-- name: posted_since
SELECT held.*, news.id, news.at_millis AS posted_at, news.moved
FROM held LEFT JOIN {prefix}checkpoints AS s ON s.account = held.account
JOIN news ON news.account = held.account AND news.id > COALESCE(s.last_id, 0)
    AND news.at_millis >= CASE WHEN corrected_id IS NOT NULL THEN 0 ELSE COALESCE(s.at_millis, 0) END
UNION ALL SELECT held.*, s.last_id, s.at_millis, s.cents
FROM held JOIN {prefix}checkpoints AS s ON s.account = held.account

-- name: ordered
SELECT posted.*, LAG(posted_at) OVER (PARTITION BY account ORDER BY id, posted_at) AS before,
    LAG(id) OVER (PARTITION BY account ORDER BY id, posted_at) AS before_id
FROM ({{posted}} UNION ALL SELECT held.*, NULL, NULL, 0 FROM held) AS posted

-- name: goes_back
CASE WHEN before >= posted_at THEN NOT EXISTS (
    SELECT 1 FROM {prefix}corrections AS kept
    WHERE kept.account = ordered.account AND kept.last_posting_id >= before_id AND kept.last_posting_id < id
) END

-- name: is_sealed
id <= COALESCE((SELECT value FROM {prefix}meta WHERE name = 'checkpoint_position'), 0)

-- Those to which nothing was posted since the checkpoint need no sorting.
-- name: account_sums
{held} SELECT account, owned, cents, at_millis, SUM(moved / 1000000000), SUM(moved - moved / 1000000000 * 1000000000),
    MAX(CASE WHEN corrected_id >= id THEN NULL ELSE posted_at END), COUNT(CASE WHEN {goes_back} THEN 1 END),
    SUM(CASE WHEN {is_sealed} THEN moved / 1000000000 END),
    SUM(CASE WHEN {is_sealed} THEN moved - moved / 1000000000 * 1000000000 END),
    COALESCE((SELECT s.cents FROM {prefix}checkpoints AS s WHERE s.account = ordered.account), 0)
FROM ({ordered}) AS ordered GROUP BY account, owned, cents, at_millis
UNION ALL SELECT listed.account, owned, listed.cents, listed.at_millis, COALESCE(s.cents, 0) / 1000000000,
    COALESCE(s.cents, 0) - COALESCE(s.cents, 0) / 1000000000 * 1000000000,
    CASE WHEN corrected_id >= s.last_id THEN NULL ELSE s.at_millis END, 0, NULL, NULL, NULL
FROM listed LEFT JOIN {prefix}checkpoints AS s ON s.account = listed.account
WHERE listed.account NOT IN (SELECT account FROM held)
ORDER BY 1

-- name: account_times
{held} SELECT 'time_goes_back', account, id, posted_at, before FROM ({ordered}) AS ordered WHERE {goes_back} LIMIT ?

-- name: highest
SELECT MAX(id) FROM {prefix}postings

-- Where a window of postings ends, and how many it has.
-- name: window
SELECT MIN(id), MAX(id), COUNT(*) FROM (
    SELECT id FROM {prefix}postings WHERE id > ? AND id <= ? ORDER BY id LIMIT ?
) AS next

-- Postings within ids and times. The call of each is looked up by its key; with = PostgreSQL would read all calls for a
-- page, to hash them.
-- name: postings
SELECT kind, CASE WHEN call_account < account THEN call_account ELSE account END, source, operation, tx_id,
    CASE WHEN account < call_account THEN call_account ELSE account END,
    CASE WHEN kind = 'posted_twice' THEN (
        SELECT COUNT(*) FROM {prefix}postings AS q WHERE {account_of_q} = COALESCE(fault.account, '')
            AND q.source = fault.source AND q.operation = fault.operation AND q.tx_id = fault.tx_id
    ) ELSE 1 END, expected, actual, at_millis
FROM (
    SELECT CASE
        WHEN c.tx_id IS NULL THEN 'posting_without_call'
        WHEN (p.at_millis <> c.at_millis OR {account_of_p} <> c.account)
            AND NOT {is_not_posted} THEN 'posted_twice'
        WHEN {account_of_p} <> c.account THEN 'wrong_account'
        WHEN (
            SELECT COUNT(*) FROM {prefix}postings AS q WHERE {account_of_q} = {account_of_p} AND q.at_millis = p.at_millis
                AND q.id <> p.id AND q.source = p.source AND q.operation = p.operation AND q.tx_id = p.tx_id
        ) > 0 THEN 'posted_twice'
        WHEN {delta_of_p} <> {expected} THEN 'wrong_posting'
        END AS kind, {account_of_p} AS account, c.account AS call_account, p.source AS source,
        p.operation AS operation, p.tx_id AS tx_id, COALESCE({expected}, 0) AS expected, {delta_of_p} AS actual,
        p.at_millis AS at_millis
    FROM {prefix}postings AS p
    LEFT JOIN {prefix}calls AS c ON c.source IN (p.source, p.source) AND c.operation IN (p.operation, p.operation)
        AND c.tx_id BETWEEN p.tx_id AND p.tx_id
    WHERE p.id >= ? AND p.id <= ? AND p.at_millis >= ? AND p.at_millis < ?
) AS fault WHERE kind IS NOT NULL LIMIT ?

-- name: count
SELECT COUNT(*) FROM {prefix}postings WHERE id > ? AND id <= ?

-- name: strangers
SELECT 'no_account', account, MAX(at_millis) FROM (
    SELECT {account_of_p} AS account, at_millis FROM {prefix}postings AS p
    WHERE p.id >= ? AND p.id <= ? AND p.at_millis >= ? AND p.at_millis < ?
) AS moved
WHERE NOT EXISTS (SELECT 1 FROM {prefix}accounts AS a WHERE a.account = moved.account)
    AND NOT EXISTS (SELECT 1 FROM {prefix}clocks AS a WHERE a.account = moved.account)
GROUP BY account LIMIT ?

-- name: carried_strangers
SELECT 'no_account', account, at_millis FROM {prefix}carried AS moved
WHERE NOT EXISTS (SELECT 1 FROM {prefix}accounts AS a WHERE a.account = moved.account)
    AND NOT EXISTS (SELECT 1 FROM {prefix}clocks AS a WHERE a.account = moved.account) LIMIT ?

-- Bets of a time. With a join of sources, SQLite would read the whole index for each page, to make a Bloom filter.
-- name: bets_of_time
SELECT b.* FROM {prefix}bets AS b
WHERE b.source IN ({bet_sources}) AND b.opened_at_millis >= ? AND b.opened_at_millis < ?

-- name: other_bets
{bets_of_time} AND NOT ({is_simple})

-- Calls of a time.
-- name: call_count
SELECT COUNT(*) FROM {prefix}calls WHERE at_millis >= ? AND at_millis < ?

-- name: bet_counts
SELECT state, COUNT(*) FROM ({bets_of_time}) AS b GROUP BY state

-- Of calls whose postings are folded, what is carried says whether they were there.
-- name: is_not_folded
c.at_millis / 86400000 NOT IN (SELECT day FROM {prefix}slices WHERE folded_at_millis IS NOT NULL)

-- name: unposted
SELECT 'call_without_posting', account, source, operation, tx_id, account, 0, expected, 0, at_millis FROM (
    SELECT c.account, c.source, c.operation, c.tx_id, c.at_millis, {expected} AS expected
    FROM {prefix}calls AS c WHERE c.at_millis >= ? AND c.at_millis < ? AND {is_not_folded}
) AS c WHERE expected <> 0 AND {is_not_posted} AND NOT EXISTS ({moved_elsewhere}) LIMIT ?

-- name: calls
SELECT fault, account, source, bet_id, operation, tx_id, state, at_millis FROM (
    SELECT c.source, c.operation, c.tx_id, c.bet_id, c.account, b.state, c.at_millis, {call_fault} AS fault
    FROM {calls_with_bets} WHERE c.at_millis >= ? AND c.at_millis < ?
        AND c.operation IN ('withdraw', 'deposit', 'rollback', 'reconcile', 'pay') AND {{which}}
) AS judged WHERE fault IS NOT NULL LIMIT ?

-- What came to bets that were opened before.
-- name: bets_touched
SELECT b.* FROM {prefix}bets AS b JOIN (
    SELECT DISTINCT source, bet_id FROM {prefix}calls
    WHERE at_millis >= ? AND at_millis < ? AND operation <> 'withdraw' AND bet_id IS NOT NULL
) AS named ON b.source = named.source AND b.bet_id = named.bet_id WHERE b.opened_at_millis < ?

-- A CROSS JOIN, because SQLite keeps its order: otherwise it reads all calls of the index for each page. And grouped by
-- an expression: otherwise it walks the index of all bets, to spare a sort.
-- name: bets
SELECT fault, account, source, bet_id, state, at_millis FROM (
    SELECT b.source, b.bet_id, b.account, b.state, b.opened_at_millis AS at_millis, {bet_fault} AS fault
    FROM ({{chosen}}) AS b
    LEFT JOIN {prefix}calls AS w
        ON w.source = b.source AND w.operation = 'withdraw' AND w.tx_id = b.withdraw_tx_id
    LEFT JOIN {prefix}calls AS d
        ON d.source = b.source AND d.operation = 'deposit' AND d.tx_id = b.deposit_tx_id
    LEFT JOIN (
        SELECT n.source, n.bet_id, SUM(CASE WHEN operation = 'rollback' THEN 1 ELSE 0 END) AS rollbacks,
            SUM(CASE WHEN operation = 'rollback' AND code IS NULL THEN 1 ELSE 0 END) AS refunds,
            SUM(CASE WHEN operation = 'reconcile' AND code IS NULL THEN 1 ELSE 0 END) AS reconciled,
            MAX(CASE WHEN operation = 'reconcile' THEN amount_cents END) AS repaired_cents,
            MAX(CASE WHEN operation = 'reconcile' THEN player_id END) AS repaired_player,
            MAX(CASE WHEN operation = 'reconcile' THEN account END) AS repaired_account
        FROM (SELECT COALESCE(source, '') AS source, bet_id FROM ({{chosen}}) AS b) AS n
        CROSS JOIN (
            SELECT source, bet_id AS named, operation, code, amount_cents, player_id, account FROM {prefix}calls
            WHERE {is_of_bet} AND operation IN ('rollback', 'reconcile')
        ) AS c WHERE c.named = n.bet_id AND c.source = n.source
        GROUP BY n.source, n.bet_id
    ) AS r ON r.source = b.source AND r.bet_id = b.bet_id
) AS judged WHERE fault IS NOT NULL LIMIT ?

-- A payment is a call of the operation pay, whose identity is the finding that it was made for.
-- name: payments
SELECT fault, account, source, bet_id, 'pay', tx_id, at_millis FROM (
    SELECT c.source, c.tx_id, c.bet_id, c.account, c.at_millis, CASE
        WHEN f.id IS NULL THEN 'payment_without_finding'
        WHEN f.paid_cents IS NULL OR f.resolved_at_millis IS NULL OR f.paid_cents <> c.amount_cents
            OR f.source <> c.source OR f.subject <> c.bet_id OR c.account <> b.account OR c.player_id <> b.player_id
            THEN 'payment_differs' END AS fault
    FROM {calls_with_bets} LEFT JOIN {prefix}findings AS f ON CAST(f.id AS text) = c.tx_id
    WHERE c.operation = 'pay' AND c.at_millis >= ? AND c.at_millis < ?
) AS judged WHERE fault IS NOT NULL LIMIT ?

-- name: unpaid
SELECT 'finding_without_payment', f.account, f.source, f.subject, 'pay', CAST(f.id AS text), f.resolved_at_millis
FROM {prefix}findings AS f
WHERE f.paid_cents IS NOT NULL AND COALESCE(f.resolved_at_millis, 0) >= ? AND NOT EXISTS (
    SELECT 1 FROM {prefix}calls AS c WHERE c.source = f.source AND c.operation = 'pay' AND c.tx_id = CAST(f.id AS text)
) LIMIT ?

-- What calls of a time have moved, as closes store it. A bet of an action that is neither may have been taken for a RAIN
-- until it was rolled back.
-- name: moved
SELECT day, source, instance, game, currency, kind, COUNT(*), SUM(cents / 1000000000),
    SUM(cents - cents / 1000000000 * 1000000000), MAX(is_other)
FROM (
    SELECT c.at_millis / 86400000 AS day, c.source AS source, {call_columns}, {expected} AS cents,
        CASE WHEN b.state = 'ROLLED_BACK' AND b.action NOT IN ('BET', 'RAIN') THEN 1 ELSE 0 END AS is_other
    FROM {calls_with_bets} WHERE c.at_millis >= ? AND c.at_millis < ?
) AS moved WHERE cents <> 0 GROUP BY day, source, instance, game, currency, kind

-- Calls of a time, whether each is a bet's own withdraw or deposit, and what it moves.
-- name: calls_in_full
SELECT c.source, c.operation, c.tx_id, c.account, c.bet_id, c.player_id, c.amount_cents, c.at_millis,
    CASE WHEN {is_ordinary} THEN 1 ELSE 0 END, {expected}
FROM {prefix}calls AS c WHERE c.at_millis >= ? AND c.at_millis < ?

-- What bets of a time say of their withdraws and deposits.
-- name: bets_in_full
SELECT source, bet_id, account, player_id, withdraw_tx_id, wager_cents, opened_at_millis,
    deposit_tx_id, won_cents, settled_at_millis
FROM ({bets_of_time}) AS b WHERE action = 'BET' AND state NOT IN ('TOMBSTONE', 'DECLINED')

-- name: carried
SELECT account, cents FROM {prefix}carried WHERE account > ? ORDER BY account LIMIT ?
