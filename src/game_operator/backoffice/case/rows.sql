-- What a case file reads. All but the postings, the anomalies and ``all_calls`` follow an index.

-- name: call
SELECT {call_columns}, body FROM {prefix}calls WHERE source = ? AND operation = ? AND tx_id = ?

-- The condition is that of the partial index of claims.
-- name: claims
SELECT {call_columns}, body FROM {prefix}calls
WHERE source = ? AND bet_id = ? AND operation = 'deposit' AND action <> 'BET'

-- Of a rollback with an identity that its bet does not keep.
-- name: all_calls
SELECT {call_columns}, body FROM {prefix}calls WHERE source = ? AND bet_id = ?

-- No index leads from a call to its posting: none of the calls needs one. All is read, once for all calls of the bet.
-- name: postings
SELECT id, operation, tx_id, {account}, {delta}, at_millis FROM {prefix}postings WHERE source = ? AND (

-- What could not be read names no bet; its body is looked through for the two spellings of the bet's id.
-- name: anomalies
SELECT {anomaly_columns}, digest FROM {prefix}anomalies WHERE source = ? AND (
    bet_id = ? OR (bet_id IS NULL AND tx_id IS NULL AND player_id IS NULL AND ({in_body} > 0 OR {in_body} > 0))
) ORDER BY id

-- name: findings
SELECT {finding_columns} FROM {prefix}findings WHERE source = ? AND subject = ? ORDER BY id

-- name: looked_up
SELECT {item_columns} FROM {prefix}runs AS r JOIN {prefix}items AS i ON i.run_id = r.id AND i.key = ?
WHERE r.kind = 'reconcile' AND r.source = ? ORDER BY r.id

-- name: pruned
SELECT value FROM {prefix}meta WHERE name = 'pruned_before'
