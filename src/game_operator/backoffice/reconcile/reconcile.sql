-- Which bets a reconciliation looks up, and what it reads and writes of them. Where another index leads
-- to the bets, the source is compared by an expression: a planner could else prefer an index that begins with it.

-- Those of the future are there because a clock was wrong: they are old.
-- name: open
SELECT opened_at_millis, bet_id FROM {prefix}bets
WHERE state = 'OPEN' AND (opened_at_millis, bet_id) > (?, ?)
    AND (opened_at_millis <= ? OR opened_at_millis > ?) AND {of_source}
ORDER BY opened_at_millis, bet_id LIMIT ?

-- No deposit settles these, so each is looked up once.
-- name: spent
SELECT opened_at_millis, bet_id FROM {prefix}bets
WHERE state = 'SPENT' AND (opened_at_millis, bet_id) > (?, ?) AND opened_at_millis >= ? AND opened_at_millis <= ?
    AND {of_source} AND NOT EXISTS (
        SELECT 1 FROM {prefix}looks AS seen
        WHERE seen.bet_id = {prefix}bets.bet_id AND seen.source = {prefix}bets.source AND seen.service = ?
    )
ORDER BY opened_at_millis, bet_id LIMIT ?

-- name: repaired
SELECT settled_at_millis, bet_id FROM {prefix}bets
WHERE settled_by IS NOT NULL AND (settled_at_millis, bet_id) > (?, ?) AND settled_at_millis >= ?
    AND {of_source}
ORDER BY settled_at_millis, bet_id LIMIT ?

-- name: anomalies
SELECT 0, bet_id FROM {prefix}anomalies
WHERE resolved_at_millis IS NULL AND bet_id IS NOT NULL AND source = ? AND bet_id > ? GROUP BY bet_id ORDER BY bet_id LIMIT ?

-- Rows by their numbers, and blocks of the table: neither reads all of it.
-- name: last_row
SELECT COALESCE(MAX(rowid), 0) FROM {prefix}bets

-- name: sample_of_sqlite
SELECT bet_id FROM {prefix}bets WHERE rowid IN (SELECT value FROM json_each(?))
    AND state NOT IN ('OPEN', 'SPENT') AND source = ?
    AND COALESCE(settled_at_millis, opened_at_millis) BETWEEN ? AND ? AND opened_at_millis >= ? ORDER BY bet_id

-- name: sample_of_postgres
SELECT 0, bet_id FROM {prefix}bets TABLESAMPLE SYSTEM (CAST(? AS real)) REPEATABLE (CAST(? AS double precision))
WHERE state NOT IN ('OPEN', 'SPENT') AND source = ?
    AND COALESCE(settled_at_millis, opened_at_millis) BETWEEN ? AND ? AND opened_at_millis >= ?
    AND bet_id > ? ORDER BY bet_id LIMIT ?

-- The latest bets, for a look at whether the service answers from an old copy. Where a page ends among bets of one
-- millisecond, the rest of them is left out: it is a sample.
-- name: latest
SELECT bet_id, state, settled_by, settled_at_millis, opened_at_millis FROM {prefix}bets
WHERE source = ? AND opened_at_millis >= ? AND opened_at_millis < ? ORDER BY opened_at_millis DESC LIMIT ?

-- name: bets
SELECT {bet_columns} FROM {prefix}bets WHERE source = ? AND bet_id

-- The condition of the index of calls by bet stands here as it stands there.
-- name: claims
SELECT bet_id, at_millis, tx_id, amount_cents FROM {prefix}calls
WHERE bet_id IS NOT NULL AND (operation NOT IN ('withdraw', 'deposit') OR code IS NOT NULL OR action <> 'BET')
    AND operation = 'deposit' AND action <> 'BET' AND code IS NULL AND source = ? AND bet_id

-- A payment is a call, whose time tells the claims that a person has counted from those that came later.
-- name: paid
SELECT found.subject, found.paid_cents, COALESCE(paid.at_millis, found.resolved_at_millis)
FROM {prefix}findings AS found LEFT JOIN {prefix}calls AS paid
    ON paid.tx_id = CAST(found.id AS text) AND paid.operation = 'pay' AND paid.source = found.source
WHERE found.paid_cents IS NOT NULL AND found.source = ? AND found.subject

-- Free bets have no withdraw: the body of a claim names them.
-- name: looks
SELECT bet_id, at_millis, digest FROM {prefix}looks WHERE service = ? AND source = ? AND bet_id

-- A look that is equal to the one before is no new one: what counts is for how long the service has said so.
-- name: keep_look
INSERT INTO {prefix}looks AS kept (service, source, bet_id, at_millis, digest) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (bet_id, source, service) DO UPDATE SET at_millis = excluded.at_millis, digest = excluded.digest
WHERE kept.digest <> excluded.digest

-- name: close_findings
UPDATE {prefix}findings SET resolved_at_millis = ?, resolved_by = 'reconcile', resolution = ?
WHERE source = ? AND subject = ? AND tx_id = '' AND resolved_at_millis IS NULL AND kind IN {kinds}

-- What a late call has left says what is owed as it is now; nothing where a claim may have paid it.
-- name: judge_late_again
UPDATE {prefix}findings SET owed_cents = CASE
    WHEN CAST(? AS bigint) = 1 THEN NULL WHEN at_stake_cents <= CAST(? AS bigint) THEN at_stake_cents - ?
    WHEN at_stake_cents <= CAST(? AS bigint) THEN 0 ELSE at_stake_cents - ? END
WHERE source = ? AND subject = ? AND kind IN {late} AND resolved_at_millis IS NULL
