-- The tables of version 6. Every row of money is written once; what is unique is a constraint.

CREATE TABLE {prefix}meta (
    name TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The version of these tables, and the oldest version whose programs may write. Each statement that writes asks for the
-- second. A migration that only adds leaves it as it is.
INSERT INTO {prefix}meta VALUES ('version', 6), ('oldest_writer', 6), ('dropping', 0);

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

-- Which ledger moves the balances in a table of the operator's. All ledgers here share this table, so its name is fixed.
CREATE TABLE IF NOT EXISTS game_operator_balance_tables (
    name TEXT NOT NULL PRIMARY KEY,
    prefix TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Accounts whose time was brought back: postings up to this id may be later than those after it.
CREATE TABLE {prefix}corrections (
    account TEXT NOT NULL,
    last_posting_id INTEGER NOT NULL,
    from_millis INTEGER NOT NULL,
    to_millis INTEGER NOT NULL,
    PRIMARY KEY (account, last_posting_id)
) STRICT, WITHOUT ROWID;

-- The services and environments whose calls are taken, "" included; none is ever removed.
CREATE TABLE {prefix}sources (
    name TEXT NOT NULL PRIMARY KEY,
    origin TEXT NOT NULL CHECK (origin IN ('first call', 'found', 'added')),
    at_millis INTEGER NOT NULL,
    is_first INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Two processes that begin at once with different sources cannot both be the first, whatever each of them sees.
CREATE UNIQUE INDEX {prefix}sources_first ON {prefix}sources (is_first) WHERE is_first;

-- The name of this ledger, if its programs give it one: a single row.
CREATE TABLE {prefix}ledger_name (
    number INTEGER PRIMARY KEY CHECK (number = 1),
    name TEXT NOT NULL,
    at_millis INTEGER NOT NULL
) STRICT;

-- When bets were stopped and started again, by whom and why. While one holds, the row 'oldest_writer_of_bets' of meta is
-- above every version.
CREATE TABLE {prefix}bet_stops (
    number INTEGER PRIMARY KEY,
    code TEXT NOT NULL,
    stopped_at_millis INTEGER NOT NULL,
    stopped_by TEXT NOT NULL,
    stop_reason TEXT NOT NULL,
    started_at_millis INTEGER,
    started_by TEXT,
    start_reason TEXT
) STRICT;

-- One at a time holds.
CREATE UNIQUE INDEX {prefix}bet_stops_now ON {prefix}bet_stops ((started_at_millis IS NULL)) WHERE started_at_millis IS NULL;

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
    -- What totals are grouped by.
    instance_id TEXT,
    game TEXT,
    currency TEXT,
    UNIQUE (source, operation, tx_id)
) STRICT;

CREATE INDEX {prefix}calls_at ON {prefix}calls (at_millis);
CREATE INDEX {prefix}calls_with_body ON {prefix}calls (at_millis) WHERE body IS NOT NULL;
CREATE INDEX {prefix}calls_claimed ON {prefix}calls (player_id, source, at_millis)
    WHERE operation = 'deposit' AND action <> 'BET';
-- What an account got beside its bets: claims, and payments for findings.
CREATE INDEX {prefix}calls_beside_bets ON {prefix}calls (account, at_millis)
    WHERE operation = 'pay' OR (operation = 'deposit' AND action <> 'BET');
-- All calls of a bet but its own withdraw and deposit, which it names: claims, too.
CREATE INDEX {prefix}calls_of_bet ON {prefix}calls (bet_id, source)
    WHERE bet_id IS NOT NULL AND (operation NOT IN ('withdraw', 'deposit') OR code IS NOT NULL OR action <> 'BET');

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
    currency TEXT,
    -- Who settled it: NULL is a call of the provider.
    settled_by TEXT,
    UNIQUE (source, bet_id)
) STRICT;

-- Bets of a source by time.
CREATE INDEX {prefix}bets_of_source ON {prefix}bets (source, opened_at_millis);
-- Bets of an account by time. Most accounts have the player's id: only the bets of others have an entry by player, too.
CREATE INDEX {prefix}bets_of_account ON {prefix}bets (account, opened_at_millis);
CREATE INDEX {prefix}bets_of_player ON {prefix}bets (player_id, opened_at_millis) WHERE account <> player_id;
-- Open bets by time. The account is in it to find those of one without reading the rows of all others.
CREATE INDEX {prefix}bets_open_by_time ON {prefix}bets (opened_at_millis, bet_id, account) WHERE state = 'OPEN';
CREATE INDEX {prefix}bets_rare ON {prefix}bets (state, opened_at_millis)
    WHERE state <> 'OPEN' AND state <> 'SPENT' AND state <> 'CLOSED';
-- Which bets a reconciliation looks up. A mark of how far it has looked would lose what was committed late.
CREATE INDEX {prefix}bets_spent ON {prefix}bets (opened_at_millis, bet_id) WHERE state = 'SPENT';
CREATE INDEX {prefix}bets_repaired ON {prefix}bets (settled_at_millis, bet_id) WHERE settled_by IS NOT NULL;

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

CREATE INDEX {prefix}postings_of_account ON {prefix}postings (COALESCE(to_account, from_account), at_millis);

CREATE TRIGGER {prefix}postings_stay BEFORE UPDATE ON {prefix}postings
BEGIN
    SELECT RAISE(ABORT, 'postings are never changed');
END;

CREATE TRIGGER {prefix}postings_remain BEFORE DELETE ON {prefix}postings
WHEN (SELECT value FROM {prefix}meta WHERE name = 'dropping') IS NOT 1
BEGIN
    SELECT RAISE(ABORT, 'postings are never deleted outside maintain');
END;

-- REPLACE deletes what it stands in for, and no trigger of deletions would see it.
CREATE TRIGGER {prefix}postings_stand BEFORE INSERT ON {prefix}postings
WHEN EXISTS (SELECT 1 FROM {prefix}postings WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'postings are never replaced');
END;

-- What of each account's postings maintain has folded: their sum, and the id and the time of the last one.
CREATE TABLE {prefix}carried (
    account TEXT NOT NULL PRIMARY KEY,
    cents INTEGER NOT NULL,
    last_id INTEGER NOT NULL,
    at_millis INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The sum of each account's sealed postings, with those that are folded by now, and the last one's id and time.
CREATE TABLE {prefix}checkpoints (
    account TEXT NOT NULL PRIMARY KEY,
    cents INTEGER NOT NULL,
    last_id INTEGER NOT NULL,
    at_millis INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Sealed postings: those of one day, in days since 1970 in UTC, within a window of ids. All of the window are sealed at
-- once. A sum is cents + 1,000,000,000 billions.
CREATE TABLE {prefix}slices (
    day INTEGER NOT NULL,
    last_id INTEGER NOT NULL,
    first_id INTEGER NOT NULL,
    count INTEGER NOT NULL,
    billions INTEGER NOT NULL,
    cents INTEGER NOT NULL,
    digest BLOB NOT NULL,
    findings INTEGER NOT NULL,
    sealed_at_millis INTEGER NOT NULL,
    read_at_millis INTEGER NOT NULL,
    folded_at_millis INTEGER,
    -- Of the calls that had made the postings that are folded.
    calls_digest BLOB,
    PRIMARY KEY (day, last_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX {prefix}slices_damaged ON {prefix}slices (day, last_id) WHERE findings > 0;

-- Each close of finished days, for totals. A posting is in the stored totals if its id is at most the position and its
-- day, in days since 1970 in UTC, before before_day. All with an id below first_id are.
CREATE TABLE {prefix}closes (
    number INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    before_day INTEGER NOT NULL,
    first_id INTEGER NOT NULL,
    at_millis INTEGER NOT NULL
) STRICT;

-- What each close has stored. An amount is cents + 1,000,000,000 billions: a day may sum up to more than 63 bits hold.
CREATE TABLE {prefix}totals (
    close_number INTEGER NOT NULL REFERENCES {prefix}closes (number),
    line INTEGER NOT NULL,
    day INTEGER NOT NULL,
    source TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    game TEXT NOT NULL,
    currency TEXT NOT NULL,
    kind TEXT NOT NULL,
    late INTEGER NOT NULL,
    count INTEGER NOT NULL,
    billions INTEGER NOT NULL,
    cents INTEGER NOT NULL,
    PRIMARY KEY (close_number, line)
) STRICT;

CREATE INDEX {prefix}totals_day ON {prefix}totals (day);

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

CREATE INDEX {prefix}anomalies_unresolved ON {prefix}anomalies (source, bet_id)
    WHERE resolved_at_millis IS NULL AND bet_id IS NOT NULL;
CREATE INDEX {prefix}anomalies_with_body ON {prefix}anomalies (id)
    WHERE resolved_at_millis IS NOT NULL AND length(body) > 0;
-- In the order in which they came: those to look at, all, those that name nobody.
CREATE INDEX {prefix}anomalies_waiting ON {prefix}anomalies (first_at_millis, id) WHERE resolved_at_millis IS NULL;
CREATE INDEX {prefix}anomalies_came ON {prefix}anomalies (first_at_millis, id);
CREATE INDEX {prefix}anomalies_nameless ON {prefix}anomalies (first_at_millis, id)
    WHERE player_id IS NULL AND bet_id IS NULL AND tx_id IS NULL;
CREATE INDEX {prefix}anomalies_of_bet ON {prefix}anomalies (bet_id, source) WHERE bet_id IS NOT NULL;

-- The journal: each run of the back office, its chunks of work with their leases, and its items with their results.
CREATE TABLE {prefix}runs (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    service TEXT NOT NULL,
    parameters TEXT NOT NULL,
    digest TEXT NOT NULL,
    seed INTEGER NOT NULL,
    as_of_millis INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('planning', 'running', 'paused', 'stopped', 'finished')),
    why TEXT NOT NULL,
    actor TEXT,
    reason TEXT,
    began_at_millis INTEGER NOT NULL,
    touched_at_millis INTEGER NOT NULL,
    ended_at_millis INTEGER,
    cursor TEXT NOT NULL,
    moved_count INTEGER NOT NULL DEFAULT 0,
    moved_cents INTEGER NOT NULL DEFAULT 0,
    next_call_micros INTEGER NOT NULL DEFAULT 0,
    interval_micros INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A name is one campaign, for good; and of a reconciliation one run at a time is under way.
CREATE UNIQUE INDEX {prefix}runs_named ON {prefix}runs (kind, name) WHERE name <> '';
CREATE UNIQUE INDEX {prefix}runs_under_way ON {prefix}runs (kind, source, service)
    WHERE name = '' AND state IN ('planning', 'running', 'paused');

CREATE TABLE {prefix}chunks (
    run_id INTEGER NOT NULL REFERENCES {prefix}runs (id),
    number INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('ready', 'leased', 'done')),
    ready_at_millis INTEGER NOT NULL,
    lease_until_millis INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0,
    worker TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX {prefix}chunks_waiting ON {prefix}chunks (run_id, number) WHERE state <> 'done';

CREATE TABLE {prefix}items (
    run_id INTEGER NOT NULL REFERENCES {prefix}runs (id),
    key TEXT NOT NULL,
    chunk INTEGER NOT NULL,
    place INTEGER NOT NULL,
    state TEXT NOT NULL,
    data TEXT NOT NULL,
    at_stake_cents INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    evidence BLOB,
    digest BLOB,
    at_millis INTEGER,
    PRIMARY KEY (run_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX {prefix}items_of_chunk ON {prefix}items (run_id, chunk, place);

-- What a person should look into. Nothing is ever deleted: a finding is resolved, and one that comes back is another row.
CREATE TABLE {prefix}findings (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    subject TEXT NOT NULL,
    tx_id TEXT NOT NULL,
    player_id TEXT,
    account TEXT,
    detail TEXT NOT NULL,
    at_stake_cents INTEGER NOT NULL,
    owed_cents INTEGER,
    evidence BLOB,
    digest BLOB,
    run_id INTEGER,
    first_at_millis INTEGER NOT NULL,
    last_at_millis INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    resolved_at_millis INTEGER,
    resolved_by TEXT,
    resolution TEXT,
    paid_cents INTEGER
) STRICT;

CREATE UNIQUE INDEX {prefix}findings_open ON {prefix}findings (source, subject, kind)
    WHERE tx_id = '' AND resolved_at_millis IS NULL;

-- What a call has left is the same for good: its repeats open nothing again after it was resolved.
CREATE UNIQUE INDEX {prefix}findings_of_call ON {prefix}findings (source, subject, kind, tx_id) WHERE tx_id <> '';

CREATE INDEX {prefix}findings_of_subject ON {prefix}findings (source, subject);
CREATE INDEX {prefix}findings_waiting ON {prefix}findings (source, id) WHERE resolved_at_millis IS NULL;

-- The last answer of a service about a bet: a repair needs two that are equal. A service is an address and an operator.
CREATE TABLE {prefix}looks (
    service TEXT NOT NULL,
    source TEXT NOT NULL,
    bet_id TEXT NOT NULL,
    at_millis INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (bet_id, source, service)
) STRICT, WITHOUT ROWID;

-- Documents by name, such as the last good catalogue of a service.
CREATE TABLE {prefix}documents (
    name TEXT NOT NULL PRIMARY KEY,
    body BLOB NOT NULL,
    at_millis INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
