-- The statements of the express lane; express.py says what they take. All parameters are text.
-- Look-ups are scalar subqueries: NOT EXISTS becomes a join, which a plan made over empty tables would do by scanning.

-- A stop of bets stands beside the fence, above every version, and is asked for with it in the statement that debits: it
-- holds from its commit on. Both are one short range of the index: a second look-up would take as long as a posting.
-- name: may_debit
NOT EXISTS (SELECT 1 FROM {prefix}meta WHERE name >= 'oldest_writer' AND name <= 'oldest_writer_of_bets' AND value > {version})

-- name: bets_go_on
coalesce((SELECT value FROM {prefix}meta WHERE name = 'oldest_writer_of_bets'), 0) <= {version}

-- A batch: $1 is the rows as one JSON array of arrays, in the order of item's columns; $2 is the source. A bet that
-- is to be closed is compared with the deposit's row alone: with constants, such as 'OPEN', a plan that is made over empty
-- tables would walk an index of all open bets, or of the source.
-- name: batch
WITH item AS MATERIALIZED (
    SELECT CAST((row ->> 0) AS bigint) AS n,
        (row ->> 1) AS operation,
        (row ->> 2) AS account,
        (row ->> 3) AS tx_id,
        (row ->> 4) AS action,
        (row ->> 5) AS bet_id,
        CAST((row ->> 6) AS bigint) AS amount_cents,
        CAST((row ->> 7) AS bigint) AS delta_cents,
        (row ->> 8) AS instance_id,
        (row ->> 9) AS game,
        (row ->> 10) AS round_id,
        (row ->> 11) AS state,
        decode((row ->> 12), 'hex') AS digest,
        (row ->> 13) AS currency
    FROM jsonb_array_elements(CAST(CAST($1 AS text) AS jsonb)) AS row
), locked AS MATERIALIZED (
    SELECT account, balance_cents, at_millis, {clock} AS clock FROM (
        SELECT account, balance_cents, at_millis FROM {prefix}accounts
        WHERE account = ANY(ARRAY(SELECT account FROM item)) AND {may_write} ORDER BY account FOR UPDATE
    ) AS each
), able AS MATERIALIZED (
    SELECT item.*, CAST($2 AS text) AS source, locked.balance_cents AS before_cents,
        greatest(clock, at_millis + 1) + row_number() OVER (PARTITION BY account ORDER BY n) - 1 AS at_millis,
        locked.balance_cents + sum(least(delta_cents, 0)) OVER (PARTITION BY account) >= 0 AS can_pay
    FROM item JOIN locked USING (account)
    WHERE (
        SELECT 1 FROM {prefix}calls AS known
        WHERE known.tx_id = item.tx_id AND known.operation = item.operation AND known.source = $2
    ) IS NULL
), debited AS (
    SELECT * FROM able WHERE operation = 'withdraw' AND can_pay AND (
        SELECT 1 FROM {prefix}bets AS seen WHERE seen.bet_id = able.bet_id AND seen.source = $2
    ) IS NULL AND {bets_go_on}
), closed AS (
    UPDATE {prefix}bets AS bet
    SET state = 'CLOSED', won_cents = able.amount_cents, settled_at_millis = able.at_millis,
        deposit_tx_id = able.tx_id, round_id = coalesce(able.round_id, bet.round_id)
    FROM able
    WHERE able.operation = 'deposit' AND bet.bet_id = able.bet_id AND bet.source = able.source
        AND bet.state = able.state AND bet.player_id = able.account AND bet.account = able.account
    RETURNING able.*
), done AS MATERIALIZED (
    SELECT *,
        CAST(before_cents + sum(delta_cents) OVER (PARTITION BY account ORDER BY n) AS bigint) AS balance_cents
    FROM (SELECT * FROM debited UNION ALL SELECT * FROM closed) AS either
), moved AS (
    UPDATE {prefix}accounts AS kept
    SET balance_cents = kept.balance_cents + total.delta_cents, at_millis = total.at_millis
    FROM (
        SELECT account, CAST(sum(delta_cents) AS bigint) AS delta_cents, max(at_millis) AS at_millis
        FROM done GROUP BY account
    ) AS total
    WHERE kept.account = total.account
), called AS (
    INSERT INTO {prefix}calls ({call_columns})
    SELECT $2, operation, tx_id, account, account, bet_id, action, amount_cents, NULL, balance_cents, at_millis,
        instance_id, game, currency, NULL
    FROM done ORDER BY tx_id
), placed AS (
    INSERT INTO {prefix}bets ({bet_columns})
    SELECT bet_id, account, account, instance_id, game, round_id, amount_cents, NULL, state, at_millis, NULL, action,
        tx_id, NULL, digest, $2, currency, NULL
    FROM done WHERE operation = 'withdraw' ORDER BY bet_id
), posted AS (
    INSERT INTO {prefix}postings (from_account, to_account, amount_cents, source, operation, tx_id, at_millis)
    SELECT CASE WHEN delta_cents < 0 THEN account END, CASE WHEN delta_cents > 0 THEN account END,
        amount_cents, $2, operation, tx_id, at_millis
    FROM done WHERE delta_cents <> 0 ORDER BY n
)
SELECT n, balance_cents, at_millis FROM done

-- The same for one withdraw: no lists, no running sums, and so a third of the work.
-- $1 is its index, $2 the source; then come account, tx_id, action, bet_id, cents, instance_id, game, round_id, state,
-- digest and currency.
-- The account is locked before the row is computed. An UPDATE that waits for somebody who only read would keep the
-- time from before its wait, and a balance replied meanwhile would be the older one with the later time.
-- name: lone_withdraw
WITH locked AS MATERIALIZED (
    SELECT account FROM {prefix}accounts WHERE account = $3 AND {may_debit} FOR UPDATE
), moved AS (
    UPDATE {prefix}accounts AS kept
    SET balance_cents = kept.balance_cents - CAST(CAST($7 AS text) AS bigint), at_millis = greatest({clock}, kept.at_millis + 1)
    WHERE kept.account = $3 AND (SELECT account FROM locked) IS NOT NULL AND kept.balance_cents >= CAST(CAST($7 AS text) AS bigint)
        AND (
            SELECT 1 FROM {prefix}calls AS known
            WHERE known.tx_id = $4 AND known.operation = 'withdraw' AND known.source = $2
        ) IS NULL
        AND (SELECT 1 FROM {prefix}bets AS seen WHERE seen.bet_id = $6 AND seen.source = $2) IS NULL
    RETURNING kept.account, kept.balance_cents, kept.at_millis
), called AS (
    INSERT INTO {prefix}calls ({call_columns})
    SELECT $2, 'withdraw', $4, account, account, $6, $5, CAST(CAST($7 AS text) AS bigint), NULL, balance_cents, at_millis, $8, $9, $13, NULL FROM moved
), placed AS (
    INSERT INTO {prefix}bets ({bet_columns})
    SELECT $6, account, account, $8, $9, $10, CAST(CAST($7 AS text) AS bigint), NULL, $11, at_millis, NULL, $5, $4, NULL, decode($12, 'hex'), $2, $13, NULL
    FROM moved
), posted AS (
    INSERT INTO {prefix}postings (from_account, to_account, amount_cents, source, operation, tx_id, at_millis)
    SELECT account, NULL, CAST(CAST($7 AS text) AS bigint), $2, 'withdraw', $4, at_millis FROM moved
)
SELECT $1, balance_cents, at_millis FROM moved
