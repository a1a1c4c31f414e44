-- The statements that load and store, for SQLite and for PostgreSQL, which takes all rows as one JSON array of arrays.

-- name: bets
SELECT {bet_columns} FROM {prefix}bets WHERE source = ? AND bet_id

-- name: calls
SELECT {call_columns} FROM {prefix}calls WHERE source = ? AND operation = ? AND tx_id

-- The writer was checked when the call was stored, in the same transaction.
-- name: restate
UPDATE {prefix}calls SET balance_cents = ? WHERE source = ? AND operation = ? AND tx_id = ?

-- name: upsert_anomaly
INSERT INTO {prefix}anomalies AS kept (
    source, kind, code, operation, tx_id, bet_id, player_id, body, digest, first_at_millis, last_at_millis, seen
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (source, kind, operation, digest) DO UPDATE SET seen = kept.seen + 1, code = excluded.code,
    last_at_millis = excluded.last_at_millis
RETURNING ({oldest_writer})

-- A stop of bets, as a call without an operation, comes with the look-up that each withdraw makes.
-- name: calls_and_stop
SELECT '', '', '', '', NULL, '', 0, code, NULL, 0, NULL, NULL, NULL FROM {prefix}bet_stops WHERE started_at_millis IS NULL
UNION ALL {calls}

-- The writer is checked within the statement: a separate one would cost as much as the whole look-up of a bet.
-- name: sqlite_calls
INSERT INTO {prefix}calls ({call_row}) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
WHERE NOT EXISTS ({oldest_writer} AND value > {version}) ON CONFLICT DO NOTHING

-- name: sqlite_new_bets
INSERT INTO {prefix}bets ({bet_columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: sqlite_changed_bets
UPDATE {prefix}bets SET state = ?, won_cents = ?, settled_at_millis = ?, deposit_tx_id = ?, round_id = ?, settled_by = ?
WHERE source = ? AND bet_id = ? AND (
    state IN ('OPEN', 'SPENT') OR (state = 'CLOSED' AND deposit_tx_id IS NULL AND ? = 'CLOSED')
)

-- name: sqlite_postings
INSERT INTO {prefix}postings ({posting_columns}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: postgres_calls
INSERT INTO {prefix}calls ({call_row})
SELECT item ->> 0, item ->> 1, item ->> 2, item ->> 3, item ->> 4, item ->> 5, item ->> 6, CAST(item ->> 7 AS bigint),
    item ->> 8, CAST(item ->> 9 AS bigint), CAST(item ->> 10 AS bigint), item ->> 11, item ->> 12, item ->> 13,
    decode(item ->> 14, 'hex')
FROM {json_rows} ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING

-- name: postgres_new_bets
INSERT INTO {prefix}bets ({bet_columns})
SELECT item ->> 0, item ->> 1, item ->> 2, item ->> 3, item ->> 4, item ->> 5, CAST(item ->> 6 AS bigint),
    CAST(item ->> 7 AS bigint), item ->> 8, CAST(item ->> 9 AS bigint), CAST(item ->> 10 AS bigint), item ->> 11,
    item ->> 12, item ->> 13, decode(item ->> 14, 'hex'), item ->> 15, item ->> 16, item ->> 17
FROM {json_rows} ORDER BY 1 ON CONFLICT DO NOTHING

-- The limit limits nothing. With it, plans that are made over empty tables expect few rows and look each bet up by its key.
-- name: postgres_changed_bets
UPDATE {prefix}bets SET state = item ->> 0, won_cents = CAST(item ->> 1 AS bigint),
    settled_at_millis = CAST(item ->> 2 AS bigint), deposit_tx_id = item ->> 3, round_id = item ->> 4,
    settled_by = item ->> 5
FROM (SELECT item FROM {json_rows} LIMIT (SELECT 1000000)) AS rows (item) WHERE source = item ->> 6 AND bet_id = item ->> 7 AND (
    state IN ('OPEN', 'SPENT') OR (state = 'CLOSED' AND deposit_tx_id IS NULL AND item ->> 8 = 'CLOSED')
)

-- name: postgres_postings
INSERT INTO {prefix}postings ({posting_columns})
SELECT item ->> 0, item ->> 1, CAST(item ->> 2 AS bigint), item ->> 3, item ->> 4, item ->> 5,
    CAST(item ->> 6 AS bigint)
FROM {json_rows}

-- name: insert_finding
INSERT INTO {prefix}findings AS kept (
    kind, source, subject, tx_id, player_id, account, detail, at_stake_cents, owed_cents, evidence, run_id,
    first_at_millis, last_at_millis, seen
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)

-- name: upsert_finding
{insert_finding}
ON CONFLICT (source, subject, kind) WHERE tx_id = '' AND resolved_at_millis IS NULL DO UPDATE SET
    last_at_millis = excluded.last_at_millis, seen = kept.seen + 1, detail = excluded.detail,
    at_stake_cents = excluded.at_stake_cents,
    owed_cents = excluded.owed_cents, evidence = excluded.evidence, run_id = excluded.run_id

-- name: upsert_finding_of_call
{insert_finding}
ON CONFLICT (source, subject, kind, tx_id) WHERE tx_id <> '' DO UPDATE SET
    last_at_millis = excluded.last_at_millis, seen = kept.seen + 1
