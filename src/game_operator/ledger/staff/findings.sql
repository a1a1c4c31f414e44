-- What is read of findings, and how they are resolved.

-- name: finding
SELECT {finding_columns} FROM {prefix}findings WHERE id = ?

-- Further conditions follow. Those of one subject are few: they are sorted.
-- name: page_of_findings
SELECT {finding_columns} FROM {prefix}findings WHERE id > ?

-- name: open_findings_of
SELECT {finding_columns} FROM {prefix}findings
WHERE source = ? AND subject = ? AND resolved_at_millis IS NULL ORDER BY id

-- name: resolve_finding
UPDATE {prefix}findings SET resolved_at_millis = ?, resolved_by = ?, resolution = ?, paid_cents = ?
WHERE id = ? AND resolved_at_millis IS NULL RETURNING id
