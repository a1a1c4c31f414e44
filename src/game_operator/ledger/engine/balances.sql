-- The statements of balances: the ledger's own, and when those of the operator's moved.

-- name: balance
SELECT balance_cents FROM {prefix}accounts WHERE account = ?

-- name: accounts
SELECT account, balance_cents, at_millis FROM {prefix}accounts WHERE account

-- name: lock
SELECT locked.account, locked.balance_cents, locked.at_millis, {clock}
FROM ({accounts} = ANY({keys}) ORDER BY account FOR UPDATE) AS locked

-- name: clocks
SELECT account, at_millis FROM {prefix}clocks WHERE account

-- name: sqlite_new_accounts
INSERT INTO {prefix}accounts (account, balance_cents, at_millis) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: sqlite_accounts
UPDATE {prefix}accounts SET balance_cents = ?, at_millis = ? WHERE account = ? AND balance_cents = ?

-- name: sqlite_clocks
INSERT INTO {prefix}clocks (account, at_millis) VALUES (?, ?)
ON CONFLICT (account) DO UPDATE SET at_millis = excluded.at_millis

-- name: postgres_new_accounts
INSERT INTO {prefix}accounts (account, balance_cents, at_millis)
SELECT item ->> 0, CAST(item ->> 1 AS bigint), CAST(item ->> 2 AS bigint) FROM {json_rows} ON CONFLICT DO NOTHING

-- name: postgres_accounts
UPDATE {prefix}accounts SET balance_cents = CAST(item ->> 0 AS bigint), at_millis = CAST(item ->> 1 AS bigint)
FROM {json_rows} WHERE account = item ->> 2 AND balance_cents = CAST(item ->> 3 AS bigint)

-- name: postgres_clocks
INSERT INTO {prefix}clocks (account, at_millis) SELECT item ->> 0, CAST(item ->> 1 AS bigint) FROM {json_rows} ORDER BY 1
ON CONFLICT (account) DO UPDATE SET at_millis = excluded.at_millis
