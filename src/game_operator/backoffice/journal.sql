-- The statements of the journal. {rows} reads a parameter, which is rows as a JSON array of arrays, as item.

-- name: run
SELECT {run_columns} FROM {prefix}runs WHERE id = ?

-- name: named_run
SELECT {run_columns} FROM {prefix}runs WHERE kind = ? AND name = ? ORDER BY id DESC LIMIT 1

-- name: run_under_way
SELECT {run_columns} FROM {prefix}runs
WHERE kind = ? AND name = '' AND source = ? AND service = ? AND state IN ('planning', 'running', 'paused')

-- name: runs
SELECT {run_columns} FROM {prefix}runs WHERE kind = ? AND id < ? ORDER BY id DESC LIMIT ?

-- name: begin
INSERT INTO {prefix}runs (
    id, kind, name, source, service, parameters, digest, seed, as_of_millis, state, why, actor, reason,
    began_at_millis, touched_at_millis, cursor, interval_micros
) VALUES (
    (SELECT COALESCE(MAX(id), 0) + 1 FROM {prefix}runs), ?, ?, ?, ?, ?, ?, ?, ?, 'planning', '', ?, ?, ?, ?, ?, ?
) ON CONFLICT DO NOTHING RETURNING id

-- A run that goes on after a pause begins to count its failures anew.
-- name: set_state
UPDATE {prefix}runs SET state = ?, why = ?, touched_at_millis = ?, ended_at_millis = ?,
    failures = CASE WHEN state = 'paused' AND CAST(? AS text) = 'running' THEN 0 ELSE failures END
WHERE id = ? AND state IN ('planning', 'running', 'paused') RETURNING id

-- name: set_cursor
UPDATE {prefix}runs SET cursor = ?, state = ?, touched_at_millis = ? WHERE id = ? AND cursor = ? AND state = ? RETURNING id

-- name: last_chunk
SELECT COALESCE(MAX(number), 0) FROM {prefix}chunks WHERE run_id = ?

-- name: add_chunk
INSERT INTO {prefix}chunks (run_id, number, state, ready_at_millis) VALUES (?, ?, 'ready', ?)
ON CONFLICT DO NOTHING RETURNING number

-- name: add_chunks
INSERT INTO {prefix}chunks (run_id, number, state, ready_at_millis) VALUES (?, ?, 'ready', ?) ON CONFLICT DO NOTHING

-- name: add_items
INSERT INTO {prefix}items (run_id, key, chunk, place, state, data, at_stake_cents)
SELECT CAST(? AS bigint), item ->> 0, CAST(item ->> 1 AS bigint), CAST(item ->> 2 AS bigint), '', item ->> 3,
    CAST(item ->> 4 AS bigint)
FROM {rows} WHERE true ON CONFLICT (run_id, key) DO NOTHING RETURNING key

-- name: move_items
UPDATE {prefix}items SET chunk = ? WHERE run_id = ? AND key IN (SELECT item ->> 0 FROM {rows})

-- name: claim
UPDATE {prefix}chunks SET state = 'leased', attempt = attempt + 1, lease_until_millis = ?, worker = ?
WHERE run_id = ? AND number = (
    SELECT number FROM {prefix}chunks
    WHERE run_id = ? AND ready_at_millis <= ? AND (state = 'ready' OR (state = 'leased' AND lease_until_millis <= ?))
    ORDER BY number LIMIT 1 {skip_locked}
) RETURNING number, attempt

-- Behind the fence: a process that lost its lease finds nothing to renew.
-- name: renew
UPDATE {prefix}chunks SET lease_until_millis = ?, state = ?
WHERE run_id = ? AND number = ? AND attempt = ? AND state = 'leased' RETURNING number

-- name: release
UPDATE {prefix}chunks SET state = 'ready', ready_at_millis = ?
WHERE run_id = ? AND number = ? AND attempt = ? AND state = 'leased' RETURNING number

-- When the next chunk can be taken; no row once all are done.
-- name: waiting
SELECT MIN(CASE WHEN state = 'leased' THEN lease_until_millis ELSE ready_at_millis END), COUNT(*)
FROM {prefix}chunks WHERE run_id = ? AND state <> 'done'

-- name: items_of_chunk
SELECT {item_columns} FROM {prefix}items WHERE run_id = ? AND chunk = ? ORDER BY place

-- name: item
SELECT {item_columns} FROM {prefix}items WHERE run_id = ? AND key = ?

-- name: page_of_items
SELECT {item_columns} FROM {prefix}items WHERE run_id = ? AND key > ? ORDER BY key LIMIT ?

-- name: page_of_items_in_state
SELECT {item_columns} FROM {prefix}items WHERE run_id = ? AND key > ? AND state = ? ORDER BY key LIMIT ?

-- name: counts
SELECT state, COUNT(*), SUM(at_stake_cents) FROM {prefix}items WHERE run_id = ? GROUP BY state ORDER BY state

-- name: save
UPDATE {prefix}items SET state = ?, data = ?, at_stake_cents = ?, evidence = ?, digest = ?, at_millis = ?
WHERE run_id = ? AND key = ?

-- name: begin_item
UPDATE {prefix}items SET state = ?, attempts = attempts + 1, at_millis = ? WHERE run_id = ? AND key = ?

-- The rate is shared by all processes: each takes its turns from the same row. One that is farther off than a service
-- can ask for was set by a wrong clock.
-- name: take_turns
UPDATE {prefix}runs SET touched_at_millis = ?,
    next_call_micros = CASE WHEN next_call_micros BETWEEN ? AND ? THEN next_call_micros ELSE ? END + ? * interval_micros
WHERE id = ? AND state = 'running' RETURNING next_call_micros, interval_micros

-- name: pace
UPDATE {prefix}runs SET touched_at_millis = ?, failures = CASE WHEN ? > 0 THEN 0 ELSE failures END + ?,
    interval_micros = ?, next_call_micros = CASE WHEN next_call_micros > ? THEN next_call_micros ELSE ? END
WHERE id = ? RETURNING failures

-- A brake: it lets through what fits, counted over all processes.
-- name: count_moved
UPDATE {prefix}runs SET moved_count = moved_count + 1, moved_cents = moved_cents + ?
WHERE id = ? AND state = 'running' AND moved_count < ? AND moved_cents + ? <= ? RETURNING moved_count

-- name: runs_that_moved
SELECT id FROM {prefix}runs
WHERE kind = ? AND source = ? AND service = ? AND actor = ? AND id < ? AND moved_count > 0 AND ended_at_millis > ?

-- name: moved_items
SELECT at_millis, at_stake_cents FROM {prefix}items WHERE run_id = ? AND state = ? AND at_millis > ?

-- name: document
SELECT body FROM {prefix}documents WHERE name = ?

-- name: insert_document
INSERT INTO {prefix}documents (name, body, at_millis) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING name

-- A document is replaced only as it was read.
-- name: update_document
UPDATE {prefix}documents SET body = ?, at_millis = ? WHERE name = ? AND body = ? RETURNING name
