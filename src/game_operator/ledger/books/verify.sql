-- The questions that verify asks of the books, and above them what several of them hold.
-- Amounts are summed in two halves: SQLite stops at a sum beyond 63 bits, which two large balances reach.

-- What each call moves by its own account. A reconciliation that settled a bet is a call of the operation reconcile,
-- and the deposit that comes after it moves nothing (docs/decisions/0015).
-- name: movements_of_all
SELECT c.source, c.operation, c.tx_id, c.account, c.at_millis, 1 AS called, 0 AS posted, 0 AS actual, CASE
    WHEN c.code IS NOT NULL OR c.action = '' THEN 0
    WHEN c.operation = 'withdraw' THEN -c.amount_cents
    WHEN c.operation = 'rollback' THEN CASE WHEN b.state = 'ROLLED_BACK' THEN b.wager_cents ELSE 0 END
    WHEN r.bet_id IS NOT NULL THEN 0
    ELSE c.amount_cents END AS expected
FROM {prefix}calls AS c
LEFT JOIN {prefix}bets AS b ON c.operation = 'rollback' AND b.source = c.source AND b.bet_id = c.bet_id
LEFT JOIN (SELECT DISTINCT source, bet_id FROM {prefix}calls WHERE operation = 'reconcile') AS r
    ON c.operation = 'deposit' AND c.action = 'BET' AND r.source = c.source AND r.bet_id = c.bet_id
UNION ALL
SELECT source, operation, tx_id, {account}, at_millis, 0, 1, {delta}, 0
FROM {prefix}postings

-- Each posting, and as one for each account those that are folded.
-- name: posted_of_all
SELECT id, {account} AS account, {delta} AS cents, at_millis FROM {prefix}postings
UNION ALL SELECT last_id, account, cents, at_millis FROM {prefix}carried

-- name: last_close
SELECT position, before_day, since_day FROM {prefix}closes ORDER BY number DESC LIMIT 1

-- name: grouped
SELECT source, operation, tx_id, SUM(called) AS called, SUM(posted) AS posted, SUM(expected) AS expected,
    SUM(actual) AS actual, MIN(account) AS first, MAX(account) AS last, MAX(at_millis) AS at_millis
FROM ({movements_of_all}) AS movement GROUP BY tx_id, operation, source

-- name: resolutions
SELECT source, bet_id, SUM(CASE WHEN operation = 'rollback' THEN 1 ELSE 0 END) AS rollbacks,
    SUM(CASE WHEN operation = 'rollback' AND code IS NULL THEN 1 ELSE 0 END) AS refunds,
    SUM(CASE WHEN operation = 'reconcile' AND code IS NULL THEN 1 ELSE 0 END) AS reconciled,
    MAX(CASE WHEN operation = 'reconcile' THEN amount_cents END) AS repaired_cents,
    MAX(CASE WHEN operation = 'reconcile' THEN player_id END) AS repaired_player,
    MAX(CASE WHEN operation = 'reconcile' THEN account END) AS repaired_account
FROM {prefix}calls WHERE operation IN ('rollback', 'reconcile') AND bet_id IS NOT NULL GROUP BY source, bet_id

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

-- name: pruned_before
SELECT MAX(value) FROM {prefix}meta WHERE name = 'pruned_before'

-- name: accounts
SELECT account, SUM(known), SUM(owned), SUM(cents / 1000000000), SUM(cents - cents / 1000000000 * 1000000000),
    MAX(posted_at), MAX(moved_at)
FROM (
    SELECT account, 1 AS known, 1 AS owned, balance_cents AS cents, CAST(NULL AS bigint) AS posted_at,
        at_millis AS moved_at FROM {prefix}accounts
    UNION ALL SELECT account, 1, 0, 0, NULL, at_millis FROM {prefix}clocks
    UNION ALL SELECT account, 0, 0, -cents,
        CASE WHEN corrected.last_id >= id THEN NULL ELSE at_millis END, NULL
    FROM ({posted_of_all}) AS posted LEFT JOIN (
        SELECT account AS name, MAX(last_posting_id) AS last_id FROM {prefix}corrections GROUP BY account
    ) AS corrected ON corrected.name = account
) AS side GROUP BY account
HAVING SUM(known) = 0 OR (SUM(owned) > 0 AND SUM(cents / 1000000000) * 1000000000 + SUM(cents - cents / 1000000000 * 1000000000) <> 0)
    OR MAX(posted_at) > MAX(moved_at)
LIMIT ?

-- name: movements
SELECT CASE
    WHEN called = 0 THEN 'posting_without_call'
    WHEN posted > 1 THEN 'posted_twice'
    WHEN first <> last THEN 'wrong_account'
    WHEN posted = 0 THEN 'call_without_posting'
    ELSE 'wrong_posting' END, first, source, operation, tx_id, last, posted, expected, actual
FROM ({grouped}) AS identity
WHERE called = 0 OR posted > 1 OR first <> last
    OR (expected <> actual AND NOT (posted = 0 AND at_millis < ?))
LIMIT ?

-- name: bets
SELECT fault, account, source, bet_id, state FROM (
    SELECT b.source, b.bet_id, b.account, b.state, {bet_fault} AS fault
    FROM {prefix}bets AS b
    LEFT JOIN {prefix}calls AS w
        ON w.source = b.source AND w.operation = 'withdraw' AND w.tx_id = b.withdraw_tx_id
    LEFT JOIN {prefix}calls AS d
        ON d.source = b.source AND d.operation = 'deposit' AND d.tx_id = b.deposit_tx_id
    LEFT JOIN ({resolutions}) AS r ON r.source = b.source AND r.bet_id = b.bet_id
) AS judged WHERE fault IS NOT NULL LIMIT ?

-- name: calls
SELECT fault, account, source, bet_id, operation, tx_id, state FROM (
    SELECT c.source, c.operation, c.tx_id, c.bet_id, c.account, b.state, {call_fault} AS fault
    FROM {prefix}calls AS c LEFT JOIN {prefix}bets AS b ON b.source = c.source AND b.bet_id = c.bet_id
    WHERE c.operation IN ('withdraw', 'deposit', 'rollback', 'reconcile', 'pay')
) AS judged WHERE fault IS NOT NULL LIMIT ?

-- A payment is a call of the operation pay, whose identity is the finding that it was made for.
-- name: payments
SELECT fault, account, source, bet_id, 'pay', tx_id FROM (
    SELECT c.source, c.tx_id, c.bet_id, c.account, CASE
        WHEN f.id IS NULL THEN 'payment_without_finding'
        WHEN f.paid_cents IS NULL OR f.resolved_at_millis IS NULL OR f.paid_cents <> c.amount_cents
            OR f.source <> c.source OR f.subject <> c.bet_id OR c.account <> b.account OR c.player_id <> b.player_id
            THEN 'payment_differs' END AS fault
    FROM {prefix}calls AS c
    LEFT JOIN {prefix}findings AS f ON CAST(f.id AS text) = c.tx_id
    LEFT JOIN {prefix}bets AS b ON b.source = c.source AND b.bet_id = c.bet_id
    WHERE c.operation = 'pay'
    UNION ALL
    SELECT f.source, CAST(f.id AS text), f.subject, f.account, 'finding_without_payment'
    FROM {prefix}findings AS f
    LEFT JOIN {prefix}calls AS c ON c.source = f.source AND c.operation = 'pay' AND c.tx_id = CAST(f.id AS text)
    WHERE f.paid_cents IS NOT NULL AND c.tx_id IS NULL
) AS judged WHERE fault IS NOT NULL LIMIT ?

-- name: times
SELECT 'time_goes_back', account, id, at_millis, before FROM (
    SELECT account, id, at_millis,
        LAG(at_millis) OVER (PARTITION BY account ORDER BY id) AS before,
        LAG(id) OVER (PARTITION BY account ORDER BY id) AS before_id
    FROM ({posted_of_all}) AS posted
) AS ordered WHERE before >= at_millis AND NOT EXISTS (
    SELECT 1 FROM {prefix}corrections AS kept WHERE kept.account = ordered.account
        AND kept.last_posting_id >= before_id AND kept.last_posting_id < id
) LIMIT ?

-- name: any_carried
SELECT 'carried_unasked', account FROM {prefix}carried LIMIT ?

-- name: carried
SELECT account, SUM(cents / 1000000000), SUM(cents - cents / 1000000000 * 1000000000) FROM (
    SELECT account, expected - actual AS cents FROM ({movements_of_all}) AS movement
    UNION ALL SELECT account, -cents FROM {prefix}carried
) AS side GROUP BY account
HAVING SUM(cents / 1000000000) * 1000000000 + SUM(cents - cents / 1000000000 * 1000000000) <> 0 LIMIT ?

-- What closes have stored of a day, and what came later, is what its calls moved. Whether a bet was SPENT is not asked:
-- it may have been rolled back since.
-- name: totals
SELECT day, side, SUM(billions), SUM(cents) FROM (
    SELECT at_millis / 86400000 AS day, CASE operation WHEN 'withdraw' THEN 'out of' ELSE 'into' END AS side,
        expected / 1000000000 AS billions, expected - expected / 1000000000 * 1000000000 AS cents
    FROM ({movements_of_all}) AS movement WHERE called = 1
    UNION ALL SELECT day, CASE WHEN kind IN ('wagers', 'rain') THEN 'out of' ELSE 'into' END, -billions, -cents
    FROM {prefix}totals WHERE kind <> 'carried'
    UNION ALL SELECT at_millis / 86400000, CASE operation WHEN 'withdraw' THEN 'out of' ELSE 'into' END,
        -({delta}) / 1000000000, -({delta}) - (-({delta})) / 1000000000 * 1000000000
    FROM {prefix}postings WHERE id > (SELECT position FROM ({last_close}) AS last)
) AS moved
WHERE day >= (SELECT since_day FROM ({last_close}) AS last) AND day < (SELECT before_day FROM ({last_close}) AS last)
GROUP BY day, side HAVING SUM(billions) * 1000000000 + SUM(cents) <> 0 ORDER BY day, side LIMIT ?

-- name: negative
SELECT account, balance_cents FROM {prefix}accounts WHERE balance_cents < 0 ORDER BY account LIMIT ?

-- name: total_accounts
SELECT COUNT(*), SUM(cents / 1000000000), SUM(cents - cents / 1000000000 * 1000000000)
FROM (SELECT balance_cents AS cents FROM {prefix}accounts) AS account

-- name: total_calls
SELECT COUNT(*) FROM {prefix}calls

-- name: total_postings
SELECT (SELECT COUNT(*) FROM {prefix}postings), SUM(cents / 1000000000),
    SUM(cents - cents / 1000000000 * 1000000000)
FROM ({posted_of_all}) AS posted

-- name: total_bets
SELECT state, COUNT(*) FROM {prefix}bets GROUP BY state
