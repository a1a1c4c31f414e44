-- Sealing postings: slices, and the sum of each account so far.

-- name: slice
SELECT day, last_id, first_id, count, billions, cents, digest FROM {prefix}slices WHERE folded_at_millis IS NULL

-- name: live
{slice} AND (day, last_id) > (?, ?) ORDER BY day, last_id LIMIT ?

-- name: same
{slice} AND day = ? AND last_id = ?

-- name: damaged
{slice} AND findings > 0 ORDER BY day, last_id

-- name: folded
SELECT day, count, billions, cents, calls_digest FROM {prefix}slices WHERE folded_at_millis IS NOT NULL

-- name: of_day
{slice} AND day = ? ORDER BY last_id

-- name: by_reading
SELECT day FROM {prefix}slices GROUP BY day ORDER BY MIN(read_at_millis), day

-- name: posting
SELECT id, at_millis, from_account, to_account, amount_cents, source, operation, tx_id FROM {prefix}postings

-- name: rows
{posting} WHERE id >= ? AND id <= ? AND at_millis >= ? AND at_millis < ? ORDER BY id

-- name: next
{posting} WHERE id > ? AND id <= ? ORDER BY id LIMIT ?

-- Accounts whose postings of these ids are not later than what was sealed of them.
-- name: late
SELECT DISTINCT s.account FROM {prefix}postings AS p CROSS JOIN {prefix}checkpoints AS s
WHERE p.id >= ? AND p.id <= ? AND s.account = {account} AND p.at_millis <= s.at_millis

-- name: first_position
INSERT INTO {prefix}meta (name, value) VALUES ('checkpoint_position', 0) ON CONFLICT DO NOTHING

-- Another process may have sealed the same window.
-- name: advance
UPDATE {prefix}meta SET value = ? WHERE name = 'checkpoint_position' AND value = ? RETURNING value

-- name: mark
INSERT INTO {prefix}meta AS kept (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE kept.value < excluded.value

-- name: insert_slice
INSERT INTO {prefix}slices (
    day, last_id, first_id, count, billions, cents, digest, findings, sealed_at_millis, read_at_millis
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- Sums by account: checkpoints, and what is carried.
-- name: added
ON CONFLICT (account) DO UPDATE SET cents = kept.cents + excluded.cents,
    last_id = CASE WHEN excluded.last_id > kept.last_id THEN excluded.last_id ELSE kept.last_id END,
    at_millis = CASE WHEN excluded.last_id > kept.last_id THEN excluded.at_millis ELSE kept.at_millis END

-- name: sqlite_sums
INSERT INTO {prefix}{{table}} AS kept (account, cents, last_id, at_millis) VALUES (?, ?, ?, ?)
{added}

-- name: postgres_sums
INSERT INTO {prefix}{{table}} AS kept (account, cents, last_id, at_millis)
SELECT item ->> 0, CAST(item ->> 1 AS bigint), CAST(item ->> 2 AS bigint), CAST(item ->> 3 AS bigint)
FROM {json_rows}
{added}

-- A day without postings has no slice to mark, so it gets one of none.
-- name: day_without_slices
INSERT INTO {prefix}slices (
    day, last_id, first_id, count, billions, cents, digest, findings, sealed_at_millis, read_at_millis
) SELECT ?, 0, 0, 0, 0, 0, ?, 1, ?, ? WHERE NOT EXISTS (SELECT 1 FROM {prefix}slices WHERE day = ?)

-- name: set_damaged
UPDATE {prefix}slices SET findings = 1 WHERE day = ? AND findings = 0

-- name: set_sound
UPDATE {prefix}slices SET findings = 0 WHERE day = ? AND findings <> 0

-- name: set_read
UPDATE {prefix}slices SET read_at_millis = ? WHERE day = ?
