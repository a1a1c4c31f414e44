-- What a repair asks before it settles a bet, and a payment before it pays.

-- A claim names a bet and does not touch it. What the provider reports as won may hold what the claim has paid. The
-- condition of the index of calls by bet stands here as it stands there.
-- name: claims
SELECT tx_id, amount_cents, at_millis FROM {prefix}calls
WHERE source = ? AND bet_id = ? AND operation = 'deposit' AND action <> 'BET' AND code IS NULL
    AND bet_id IS NOT NULL AND (operation NOT IN ('withdraw', 'deposit') OR code IS NOT NULL OR action <> 'BET')
ORDER BY at_millis, tx_id

-- name: paid
SELECT COALESCE(SUM(paid_cents), 0) FROM {prefix}findings WHERE source = ? AND subject = ? AND paid_cents IS NOT NULL

-- name: paid_at
SELECT at_millis FROM {prefix}calls WHERE source = ? AND operation = 'pay' AND tx_id = ?
