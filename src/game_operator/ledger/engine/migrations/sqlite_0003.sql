-- Version 3. It only adds, so that programs of version 2 that are running go on: what they store has NULL in the new
-- columns.

-- What totals are grouped by, and who settled a bet: NULL is a call of the provider.
ALTER TABLE {prefix}calls ADD COLUMN instance_id TEXT;
ALTER TABLE {prefix}calls ADD COLUMN game TEXT;
ALTER TABLE {prefix}calls ADD COLUMN currency TEXT;
ALTER TABLE {prefix}bets ADD COLUMN currency TEXT;
ALTER TABLE {prefix}bets ADD COLUMN settled_by TEXT;

-- Which bets a reconciliation looks up. A mark of how far it has looked would lose what was committed late.
CREATE INDEX IF NOT EXISTS {prefix}bets_open ON {prefix}bets (opened_at_millis, bet_id) WHERE state = 'OPEN';
CREATE INDEX IF NOT EXISTS {prefix}bets_spent ON {prefix}bets (opened_at_millis, bet_id) WHERE state = 'SPENT';
CREATE INDEX IF NOT EXISTS {prefix}bets_repaired ON {prefix}bets (settled_at_millis, bet_id) WHERE settled_by IS NOT NULL;
CREATE INDEX IF NOT EXISTS {prefix}anomalies_unresolved ON {prefix}anomalies (source, bet_id)
    WHERE resolved_at_millis IS NULL AND bet_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS {prefix}calls_claims ON {prefix}calls (source, bet_id)
    WHERE operation = 'deposit' AND action <> 'BET';
CREATE INDEX IF NOT EXISTS {prefix}calls_claimed ON {prefix}calls (source, player_id, at_millis)
    WHERE operation = 'deposit' AND action <> 'BET';

-- The journal: each run of the back office, its chunks of work with their leases, and its items with their results.
CREATE TABLE IF NOT EXISTS {prefix}runs (
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
CREATE UNIQUE INDEX IF NOT EXISTS {prefix}runs_named ON {prefix}runs (kind, name) WHERE name <> '';
CREATE UNIQUE INDEX IF NOT EXISTS {prefix}runs_under_way ON {prefix}runs (kind, source, service)
    WHERE name = '' AND state IN ('planning', 'running', 'paused');

CREATE TABLE IF NOT EXISTS {prefix}chunks (
    run_id INTEGER NOT NULL REFERENCES {prefix}runs (id),
    number INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('ready', 'leased', 'done')),
    ready_at_millis INTEGER NOT NULL,
    lease_until_millis INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0,
    worker TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS {prefix}chunks_waiting ON {prefix}chunks (run_id, number) WHERE state <> 'done';

CREATE TABLE IF NOT EXISTS {prefix}items (
    run_id INTEGER NOT NULL REFERENCES {prefix}runs (id),
    key TEXT NOT NULL,
    chunk INTEGER NOT NULL,
    place INTEGER NOT NULL,
    state TEXT NOT NULL,
    data TEXT NOT NULL,
    cents INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    evidence BLOB,
    digest BLOB,
    at_millis INTEGER,
    PRIMARY KEY (run_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS {prefix}items_of_chunk ON {prefix}items (run_id, chunk, place);

-- What a person should look into. Nothing is ever deleted: a finding is resolved, and one that comes back is another row.
CREATE TABLE IF NOT EXISTS {prefix}findings (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    subject TEXT NOT NULL,
    tx_id TEXT NOT NULL,
    player_id TEXT,
    account TEXT,
    detail TEXT NOT NULL,
    cents INTEGER NOT NULL,
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

CREATE UNIQUE INDEX IF NOT EXISTS {prefix}findings_open ON {prefix}findings (source, subject, kind)
    WHERE tx_id = '' AND resolved_at_millis IS NULL;

-- What a call has left is the same for good: its repeats open nothing again after it was resolved.
CREATE UNIQUE INDEX IF NOT EXISTS {prefix}findings_of_call ON {prefix}findings (source, subject, kind, tx_id)
    WHERE tx_id <> '';

CREATE INDEX IF NOT EXISTS {prefix}findings_of_subject ON {prefix}findings (source, subject);

-- The last answer of a service about a bet: a repair needs two that are equal. A service is an address and an operator.
CREATE TABLE IF NOT EXISTS {prefix}looks (
    service TEXT NOT NULL,
    source TEXT NOT NULL,
    bet_id TEXT NOT NULL,
    at_millis INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (bet_id, source, service)
) STRICT, WITHOUT ROWID;

-- Documents by name, such as the last good catalogue of a service.
CREATE TABLE IF NOT EXISTS {prefix}documents (
    name TEXT NOT NULL PRIMARY KEY,
    body BLOB NOT NULL,
    at_millis INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Each close of finished days, for totals. A posting is in the stored totals if its id is at most the position and its
-- day, in days since 1970 in UTC, before before_day. All with an id below first_id are.
CREATE TABLE IF NOT EXISTS {prefix}closes (
    number INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    before_day INTEGER NOT NULL,
    first_id INTEGER NOT NULL,
    since_day INTEGER NOT NULL,
    at_millis INTEGER NOT NULL
) STRICT;

-- What each close has stored. An amount is cents + 1,000,000,000 billions: a day may sum up to more than 63 bits hold.
CREATE TABLE IF NOT EXISTS {prefix}totals (
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

CREATE INDEX IF NOT EXISTS {prefix}totals_day ON {prefix}totals (day);

UPDATE {prefix}meta SET value = 2 WHERE name = 'oldest_writer' AND value < 2;
UPDATE {prefix}meta SET value = 3 WHERE name = 'version';
