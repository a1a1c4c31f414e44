-- What is read of findings, and how they are resolved.

-- name: finding
SELECT {finding_columns} FROM {prefix}findings WHERE id = ?

-- name: page_of_findings
SELECT {finding_columns} FROM {prefix}findings WHERE id > ? AND (? = 1 OR resolved_at_millis IS NULL)
    AND (CAST(? AS text) IS NULL OR source = ?) AND (CAST(? AS text) IS NULL OR subject = ?)
ORDER BY id LIMIT ?

-- name: open_findings_of
SELECT {finding_columns} FROM {prefix}findings
WHERE source = ? AND subject = ? AND resolved_at_millis IS NULL ORDER BY id

-- name: resolve_finding
UPDATE {prefix}findings SET resolved_at_millis = ?, resolved_by = ?, resolution = ?, paid_cents = ?
WHERE id = ? AND resolved_at_millis IS NULL RETURNING id
