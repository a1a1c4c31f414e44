-- Version 2. It only adds tables, so that programs of version 1 that are running go on.

-- The services and environments whose calls are taken, "" included; none is ever removed.
CREATE TABLE IF NOT EXISTS {prefix}sources (
    name text COLLATE "C" PRIMARY KEY,
    origin text COLLATE "C" NOT NULL CHECK (origin IN ('first call', 'found', 'added')),
    at_millis bigint NOT NULL,
    is_first boolean NOT NULL
);

-- Two processes that begin at once with different sources cannot both be the first, whatever each of them sees.
CREATE UNIQUE INDEX IF NOT EXISTS {prefix}sources_first ON {prefix}sources (is_first) WHERE is_first;

-- Accounts whose time was brought back: postings up to this id may be later than those after it.
CREATE TABLE IF NOT EXISTS {prefix}corrections (
    account text COLLATE "C" NOT NULL,
    last_posting_id bigint NOT NULL,
    from_millis bigint NOT NULL,
    to_millis bigint NOT NULL,
    PRIMARY KEY (account, last_posting_id)
);

-- Which ledger moves the balances in a table of the operator's. All ledgers here share this table, so its name is fixed.
CREATE TABLE IF NOT EXISTS game_operator_balance_tables (
    name text COLLATE "C" PRIMARY KEY,
    id bigint NOT NULL,
    prefix text COLLATE "C" NOT NULL
);

-- Opening and adjusting an account belong to no source.
INSERT INTO {prefix}sources (name, origin, at_millis, is_first)
    SELECT source, 'found', CAST(floor(extract(epoch FROM statement_timestamp()) * 1000) AS bigint),
        source = min(source) OVER () AND NOT EXISTS (SELECT 1 FROM {prefix}sources)
    FROM (
        SELECT source FROM {prefix}calls WHERE operation NOT IN ('open', 'adjust') GROUP BY source
        UNION SELECT source FROM {prefix}bets GROUP BY source
    ) AS held
    ON CONFLICT DO NOTHING;

INSERT INTO {prefix}meta (name, value) SELECT 'balances_shared', 1 FROM {prefix}meta WHERE name = 'balances_elsewhere'
    ON CONFLICT DO NOTHING;
-- The oldest version whose programs may write. A migration that only adds leaves it as it is.
INSERT INTO {prefix}meta (name, value) VALUES ('oldest_writer', 1) ON CONFLICT DO NOTHING;
UPDATE {prefix}meta SET value = 2 WHERE name = 'version';
