-- Version 2. It only adds tables, so that programs of version 1 that are running go on.

-- The services and environments whose calls are taken, "" included; none is ever removed.
CREATE TABLE IF NOT EXISTS {prefix}sources (
    name TEXT NOT NULL PRIMARY KEY,
    origin TEXT NOT NULL CHECK (origin IN ('first call', 'found', 'added')),
    at_millis INTEGER NOT NULL,
    is_first INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Two processes that begin at once with different sources cannot both be the first, whatever each of them sees.
CREATE UNIQUE INDEX IF NOT EXISTS {prefix}sources_first ON {prefix}sources (is_first) WHERE is_first;

-- Accounts whose time was brought back: postings up to this id may be later than those after it.
CREATE TABLE IF NOT EXISTS {prefix}corrections (
    account TEXT NOT NULL,
    last_posting_id INTEGER NOT NULL,
    from_millis INTEGER NOT NULL,
    to_millis INTEGER NOT NULL,
    PRIMARY KEY (account, last_posting_id)
) STRICT, WITHOUT ROWID;

-- Which ledger moves the balances in a table of the operator's. All ledgers here share this table, so its name is fixed.
CREATE TABLE IF NOT EXISTS game_operator_balance_tables (
    name TEXT NOT NULL PRIMARY KEY,
    id INTEGER NOT NULL,
    prefix TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Opening and adjusting an account belong to no source. The next source in the index is looked up, not the next row.
INSERT INTO {prefix}sources (name, origin, at_millis, is_first)
    WITH RECURSIVE of_bets (name) AS (
        SELECT MIN(source) FROM {prefix}bets
        UNION ALL SELECT (SELECT MIN(source) FROM {prefix}bets WHERE source > name) FROM of_bets WHERE name IS NOT NULL
    ), of_calls (name) AS (
        SELECT MIN(source) FROM {prefix}calls
        UNION ALL SELECT (SELECT MIN(source) FROM {prefix}calls WHERE source > name) FROM of_calls WHERE name IS NOT NULL
    )
    SELECT name, 'found', CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER),
        name = MIN(name) OVER () AND NOT EXISTS (SELECT 1 FROM {prefix}sources)
    FROM (
        SELECT name FROM of_bets
        UNION SELECT name FROM of_calls
        WHERE EXISTS (SELECT 1 FROM {prefix}calls WHERE source = name AND operation > 'adjust' AND operation < 'open')
            OR EXISTS (SELECT 1 FROM {prefix}calls WHERE source = name AND operation > 'open')
    ) WHERE name IS NOT NULL
    ON CONFLICT DO NOTHING;

INSERT INTO {prefix}meta (name, value) SELECT 'balances_shared', 1 FROM {prefix}meta WHERE name = 'balances_elsewhere'
    ON CONFLICT DO NOTHING;
-- The oldest version whose programs may write. A migration that only adds leaves it as it is.
INSERT INTO {prefix}meta (name, value) VALUES ('oldest_writer', 1) ON CONFLICT DO NOTHING;
UPDATE {prefix}meta SET value = 2 WHERE name = 'version';
