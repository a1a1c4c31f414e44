-- What campaigns do in the journal beside what all runs do.

-- A planned campaign is as paused: nothing takes its chunks. It must have all of its grants.
-- name: planned
UPDATE {prefix}runs SET state = 'paused', why = ?, cursor = '', touched_at_millis = ?
WHERE id = ? AND state = 'planning' AND (SELECT COUNT(*) FROM {prefix}items WHERE run_id = ?) = ? RETURNING id

-- name: go_on
UPDATE {prefix}runs SET state = 'running', why = '', touched_at_millis = ?, interval_micros = ?, parameters = ?,
    failures = CASE WHEN state = 'running' THEN failures ELSE 0 END
WHERE id = ? AND cursor = '' AND state IN ('paused', 'running') RETURNING id

-- name: pause
UPDATE {prefix}runs SET state = 'paused', why = ?, touched_at_millis = ?
WHERE id = ? AND state = 'running' RETURNING id

-- Nothing happens in a campaign by this: a restored copy that is stopped still needs a person who confirms.
-- name: stop
UPDATE {prefix}runs SET state = 'paused', why = ? WHERE id = ? AND state IN ('paused', 'running') RETURNING id

-- What the journal has just paused for its failures: the last of them.
-- name: explain
UPDATE {prefix}runs SET why = why || '. The last one: ' || ? WHERE id = ? AND state = 'paused' AND failures >= ?

-- Chunks that were held back, by the time that they were held back to.
-- name: let_go
UPDATE {prefix}chunks SET ready_at_millis = 0 WHERE run_id = ? AND ready_at_millis = ? AND state = 'ready'

-- name: at_work
SELECT COUNT(DISTINCT worker) FROM {prefix}chunks WHERE run_id = ? AND state = 'leased' AND lease_until_millis > ?

-- name: findings
SELECT {finding_columns} FROM {prefix}findings WHERE run_id = ? AND resolved_at_millis IS NULL ORDER BY id LIMIT ?
