-- Version 3. It only adds, so that programs of version 2 that are running go on: what they store has NULL in the new
-- columns. To build the indexes of a large table without stopping writers, create them beforehand with CREATE INDEX
-- CONCURRENTLY, by the same names.

-- What totals are grouped by, and who settled a bet: NULL is a call of the provider.
ALTER TABLE {prefix}calls ADD COLUMN IF NOT EXISTS instance_id text COLLATE "C";
ALTER TABLE {prefix}calls ADD COLUMN IF NOT EXISTS game text COLLATE "C";
ALTER TABLE {prefix}calls ADD COLUMN IF NOT EXISTS currency text COLLATE "C";
ALTER TABLE {prefix}bets ADD COLUMN IF NOT EXISTS currency text COLLATE "C";
ALTER TABLE {prefix}bets ADD COLUMN IF NOT EXISTS settled_by text COLLATE "C";

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
    id bigint PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    service text COLLATE "C" NOT NULL,
    parameters text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    seed bigint NOT NULL,
    as_of_millis bigint NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN ('planning', 'running', 'paused', 'stopped', 'finished')),
    why text COLLATE "C" NOT NULL,
    actor text COLLATE "C",
    reason text COLLATE "C",
    began_at_millis bigint NOT NULL,
    touched_at_millis bigint NOT NULL,
    ended_at_millis bigint,
    cursor text COLLATE "C" NOT NULL,
    moved_count bigint NOT NULL DEFAULT 0,
    moved_cents bigint NOT NULL DEFAULT 0,
    next_call_micros bigint NOT NULL DEFAULT 0,
    interval_micros bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- A name is one campaign, for good; and of a reconciliation one run at a time is under way.
CREATE UNIQUE INDEX IF NOT EXISTS {prefix}runs_named ON {prefix}runs (kind, name) WHERE name <> '';
CREATE UNIQUE INDEX IF NOT EXISTS {prefix}runs_under_way ON {prefix}runs (kind, source, service)
    WHERE name = '' AND state IN ('planning', 'running', 'paused');

CREATE TABLE IF NOT EXISTS {prefix}chunks (
    run_id bigint NOT NULL REFERENCES {prefix}runs (id),
    number bigint NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN ('ready', 'leased', 'done')),
    ready_at_millis bigint NOT NULL,
    lease_until_millis bigint NOT NULL DEFAULT 0,
    attempt bigint NOT NULL DEFAULT 0,
    worker text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, number)
) WITH (fillfactor = 70);

CREATE INDEX IF NOT EXISTS {prefix}chunks_waiting ON {prefix}chunks (run_id, number) WHERE state <> 'done';

CREATE TABLE IF NOT EXISTS {prefix}items (
    run_id bigint NOT NULL REFERENCES {prefix}runs (id),
    key text COLLATE "C" NOT NULL,
    chunk bigint NOT NULL,
    place bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    data text COLLATE "C" NOT NULL,
    cents bigint NOT NULL DEFAULT 0,
    attempts bigint NOT NULL DEFAULT 0,
    evidence bytea,
    digest bytea,
    at_millis bigint,
    PRIMARY KEY (run_id, key)
) WITH (fillfactor = 70);

CREATE INDEX IF NOT EXISTS {prefix}items_of_chunk ON {prefix}items (run_id, chunk, place);

-- What a person should look into. Nothing is ever deleted: a finding is resolved, and one that comes back is another row.
CREATE TABLE IF NOT EXISTS {prefix}findings (
    id bigint PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    tx_id text COLLATE "C" NOT NULL,
    player_id text COLLATE "C",
    account text COLLATE "C",
    detail text COLLATE "C" NOT NULL,
    cents bigint NOT NULL,
    owed_cents bigint,
    evidence bytea,
    digest bytea,
    run_id bigint,
    first_at_millis bigint NOT NULL,
    last_at_millis bigint NOT NULL,
    seen bigint NOT NULL,
    resolved_at_millis bigint,
    resolved_by text COLLATE "C",
    resolution text COLLATE "C",
    paid_cents bigint
);

CREATE UNIQUE INDEX IF NOT EXISTS {prefix}findings_open ON {prefix}findings (source, subject, kind)
    WHERE tx_id = '' AND resolved_at_millis IS NULL;

-- What a call has left is the same for good: its repeats open nothing again after it was resolved.
CREATE UNIQUE INDEX IF NOT EXISTS {prefix}findings_of_call ON {prefix}findings (source, subject, kind, tx_id)
    WHERE tx_id <> '';

CREATE INDEX IF NOT EXISTS {prefix}findings_of_subject ON {prefix}findings (source, subject);

-- The last answer of a service about a bet: a repair needs two that are equal. A service is an address and an operator.
CREATE TABLE IF NOT EXISTS {prefix}looks (
    service text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    bet_id text COLLATE "C" NOT NULL,
    at_millis bigint NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (bet_id, source, service)
);

-- Documents by name, such as the last good catalogue of a service.
CREATE TABLE IF NOT EXISTS {prefix}documents (
    name text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL,
    at_millis bigint NOT NULL
);

-- Each close of finished days, for totals. A posting is in the stored totals if its id is at most the position and its
-- day, in days since 1970 in UTC, before before_day. All with an id below first_id are.
CREATE TABLE IF NOT EXISTS {prefix}closes (
    number bigint PRIMARY KEY,
    position bigint NOT NULL,
    before_day bigint NOT NULL,
    first_id bigint NOT NULL,
    since_day bigint NOT NULL,
    at_millis bigint NOT NULL
);

-- What each close has stored. An amount is cents + 1,000,000,000 billions: a day may sum up to more than 63 bits hold.
CREATE TABLE IF NOT EXISTS {prefix}totals (
    close_number bigint NOT NULL REFERENCES {prefix}closes (number),
    line bigint NOT NULL,
    day bigint NOT NULL,
    source text COLLATE "C" NOT NULL,
    instance_id text COLLATE "C" NOT NULL,
    game text COLLATE "C" NOT NULL,
    currency text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    late bigint NOT NULL,
    count bigint NOT NULL,
    billions bigint NOT NULL,
    cents bigint NOT NULL,
    PRIMARY KEY (close_number, line)
);

CREATE INDEX IF NOT EXISTS {prefix}totals_day ON {prefix}totals (day);

UPDATE {prefix}meta SET value = 2 WHERE name = 'oldest_writer' AND value < 2;
UPDATE {prefix}meta SET value = 3 WHERE name = 'version';
