-- What a case file reads beside the calls and their postings. All of it follows an index, and is sorted afterwards: to
-- PostgreSQL, as the connection is set, anything is better than a sort.

-- name: anomalies
SELECT {anomaly_columns}, digest FROM {prefix}anomalies WHERE bet_id = ? AND source = ?

-- What could not be read names no bet; its body is looked through for the two spellings of the bet's id.
-- name: unreadable
SELECT {anomaly_columns}, digest FROM {prefix}anomalies
WHERE bet_id IS NULL AND tx_id IS NULL AND player_id IS NULL AND {of_source} AND ({in_body} > 0 OR {in_body} > 0)

-- name: findings
SELECT {finding_columns} FROM {prefix}findings WHERE source = ? AND subject = ?

-- The runs are walked: each is a row.
-- name: looked_up
SELECT {item_columns} FROM {prefix}runs AS r JOIN {prefix}items AS i ON i.run_id = r.id AND i.key = ?
WHERE r.kind = 'reconcile' AND r.source = ?

-- name: dropped
SELECT (MAX(day) + 1) * 86400000 FROM {prefix}slices WHERE folded_at_millis IS NOT NULL
