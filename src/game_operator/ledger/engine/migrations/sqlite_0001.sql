-- Version 1. Every row of money is written once; what is unique is a constraint.

CREATE TABLE {prefix}meta (
    name TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What each player holds, in cents, and when it last moved.
CREATE TABLE {prefix}accounts (
    account TEXT NOT NULL PRIMARY KEY,
    balance_cents INTEGER NOT NULL,
    at_millis INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- When a balance in the operator's own table last moved.
CREATE TABLE {prefix}clocks (
    account TEXT NOT NULL PRIMARY KEY,
    at_millis INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Every call that was answered for good: what makes it the same call again, and its answer.
CREATE TABLE {prefix}calls (
    source TEXT NOT NULL,
    operation TEXT NOT NULL,
    tx_id TEXT NOT NULL,
    player_id TEXT NOT NULL,
    account TEXT NOT NULL,
    bet_id TEXT,
    action TEXT NOT NULL,
    amount_cents INTEGER NOT NULL,
    code TEXT,
    balance_cents INTEGER,
    at_millis INTEGER NOT NULL,
    body BLOB,
    UNIQUE (source, operation, tx_id)
) STRICT;

CREATE TABLE {prefix}bets (
    bet_id TEXT NOT NULL,
    player_id TEXT NOT NULL,
    account TEXT NOT NULL,
    instance_id TEXT,
    game TEXT,
    round_id TEXT,
    wager_cents INTEGER NOT NULL CHECK (wager_cents >= 0),
    won_cents INTEGER CHECK (won_cents >= 0),
    state TEXT NOT NULL CHECK (state IN ('OPEN', 'SPENT', 'CLOSED', 'ROLLED_BACK', 'TOMBSTONE', 'DECLINED')),
    opened_at_millis INTEGER NOT NULL,
    settled_at_millis INTEGER,
    action TEXT NOT NULL,
    withdraw_tx_id TEXT,
    deposit_tx_id TEXT,
    withdraw_digest BLOB,
    source TEXT NOT NULL,
    UNIQUE (source, bet_id)
) STRICT;

CREATE INDEX {prefix}bets_opened ON {prefix}bets (opened_at_millis);

-- Each movement once: it sums to zero by construction. NULL is the house.
CREATE TABLE {prefix}postings (
    id INTEGER PRIMARY KEY,
    from_account TEXT,
    to_account TEXT,
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    source TEXT NOT NULL,
    operation TEXT NOT NULL,
    tx_id TEXT NOT NULL,
    at_millis INTEGER NOT NULL,
    CHECK ((from_account IS NULL) <> (to_account IS NULL))
) STRICT;

-- What prune has folded, once for each account.
CREATE UNIQUE INDEX {prefix}postings_carried ON {prefix}postings (tx_id) WHERE operation = 'carry';

CREATE TRIGGER {prefix}postings_stay BEFORE UPDATE ON {prefix}postings
BEGIN
    SELECT RAISE(ABORT, 'postings are never changed');
END;

CREATE TRIGGER {prefix}postings_remain BEFORE DELETE ON {prefix}postings
WHEN (SELECT value FROM {prefix}meta WHERE name = 'pruning') IS NOT 1
BEGIN
    SELECT RAISE(ABORT, 'postings are never deleted outside prune');
END;

-- REPLACE deletes what it stands in for, and no trigger of deletions would see it.
CREATE TRIGGER {prefix}postings_stand BEFORE INSERT ON {prefix}postings
WHEN EXISTS (SELECT 1 FROM {prefix}postings WHERE id = NEW.id) OR (
    NEW.operation = 'carry'
    AND EXISTS (SELECT 1 FROM {prefix}postings WHERE operation = 'carry' AND tx_id = NEW.tx_id)
)
BEGIN
    SELECT RAISE(ABORT, 'postings are never replaced');
END;

-- What a person should look at, each once, with the body it came in.
CREATE TABLE {prefix}anomalies (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    kind TEXT NOT NULL,
    code TEXT,
    operation TEXT NOT NULL,
    tx_id TEXT,
    bet_id TEXT,
    player_id TEXT,
    body BLOB NOT NULL,
    digest BLOB NOT NULL,
    first_at_millis INTEGER NOT NULL,
    last_at_millis INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    resolved_at_millis INTEGER,
    UNIQUE (source, kind, operation, digest)
) STRICT;

INSERT INTO {prefix}meta VALUES ('version', 1), ('pruning', 0);
