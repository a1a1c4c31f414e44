-- Documents by name. A document is replaced only as it was read.

-- name: read
SELECT body FROM {prefix}documents WHERE name = ?

-- name: insert
INSERT INTO {prefix}documents (name, body, at_millis) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING name

-- name: update
UPDATE {prefix}documents SET body = ?, at_millis = ? WHERE name = ? AND body = ? RETURNING name
