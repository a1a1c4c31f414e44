-- Stops of bets: the one that holds, and how they begin and end.

-- name: now
SELECT code, stopped_by, stop_reason, stopped_at_millis FROM {prefix}bet_stops WHERE started_at_millis IS NULL

-- Numbers are given out one at a time.
-- name: alone
SELECT pg_advisory_xact_lock(hashtext('{prefix}bet_stops'))

-- Beside the fence, above every version: the quick statement of PostgreSQL asks for both at once.
-- name: mark
INSERT INTO {prefix}meta (name, value) VALUES ('oldest_writer_of_bets', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: begin
INSERT INTO {prefix}bet_stops (number, code, stopped_by, stop_reason, stopped_at_millis)
SELECT COALESCE(MAX(number), 0) + 1, CAST(? AS text), CAST(? AS text), CAST(? AS text), CAST(? AS bigint) FROM {prefix}bet_stops

-- name: end
UPDATE {prefix}bet_stops SET started_by = ?, start_reason = ?, started_at_millis = ? WHERE started_at_millis IS NULL
