-- Version 4. Programs of version 3 that are running go on, except for their prune, which is refused: folded postings are
-- carried in a table now.

-- What of each account's postings prune has folded: their sum, and the id and the time of the last one.
CREATE TABLE IF NOT EXISTS {prefix}carried (
    account text COLLATE "C" PRIMARY KEY,
    cents bigint NOT NULL,
    last_id bigint NOT NULL,
    at_millis bigint NOT NULL
) WITH (fillfactor = 70);

-- The sum of each account's sealed postings, with those that are folded by now, and the last one's id and time.
CREATE TABLE IF NOT EXISTS {prefix}checkpoints (
    account text COLLATE "C" PRIMARY KEY,
    cents bigint NOT NULL,
    last_id bigint NOT NULL,
    at_millis bigint NOT NULL
) WITH (fillfactor = 70);

-- Sealed postings: those of one day, in days since 1970 in UTC, within a window of ids. All of the window are sealed at
-- once. A sum is cents + 1,000,000,000 billions.
CREATE TABLE IF NOT EXISTS {prefix}slices (
    day bigint NOT NULL,
    last_id bigint NOT NULL,
    first_id bigint NOT NULL,
    count bigint NOT NULL,
    billions bigint NOT NULL,
    cents bigint NOT NULL,
    digest bytea NOT NULL,
    findings bigint NOT NULL,
    sealed_at_millis bigint NOT NULL,
    read_at_millis bigint NOT NULL,
    folded_at_millis bigint,
    PRIMARY KEY (day, last_id)
);

CREATE INDEX IF NOT EXISTS {prefix}slices_read ON {prefix}slices (read_at_millis) WHERE folded_at_millis IS NULL;
CREATE INDEX IF NOT EXISTS {prefix}slices_damaged ON {prefix}slices (day, last_id) WHERE findings > 0;

CREATE INDEX IF NOT EXISTS {prefix}postings_of_account
    ON {prefix}postings ((COALESCE(to_account, from_account)), at_millis);

-- Calls are stored in the order of their times and seldom changed, so a few bytes for many pages do.
CREATE INDEX IF NOT EXISTS {prefix}calls_at ON {prefix}calls USING brin (at_millis)
    WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX IF NOT EXISTS {prefix}calls_with_body ON {prefix}calls (at_millis) WHERE body IS NOT NULL;

CREATE INDEX IF NOT EXISTS {prefix}anomalies_with_body ON {prefix}anomalies (id)
    WHERE resolved_at_millis IS NOT NULL AND length(body) > 0;

-- All calls of a bet but its own withdraw and deposit, which it names.
CREATE INDEX IF NOT EXISTS {prefix}calls_of_bet ON {prefix}calls (bet_id, source)
    WHERE bet_id IS NOT NULL AND (operation NOT IN ('withdraw', 'deposit') OR code IS NOT NULL OR action <> 'BET');
CREATE INDEX IF NOT EXISTS {prefix}bets_of_player ON {prefix}bets (player_id, opened_at_millis);

-- Bets of a source by time. The index it replaces led through the bets of all other sources, too.
CREATE INDEX IF NOT EXISTS {prefix}bets_of_source ON {prefix}bets (source, opened_at_millis);
DROP INDEX IF EXISTS {prefix}bets_opened;
CREATE INDEX IF NOT EXISTS {prefix}bets_rare ON {prefix}bets (state, opened_at_millis)
    WHERE state NOT IN ('OPEN', 'SPENT', 'CLOSED');

-- Anomalies in the order in which they came: those to look at, all, those of a kind or player, those that name nobody.
CREATE INDEX IF NOT EXISTS {prefix}anomalies_waiting ON {prefix}anomalies (first_at_millis, id)
    WHERE resolved_at_millis IS NULL;
CREATE INDEX IF NOT EXISTS {prefix}anomalies_came ON {prefix}anomalies (first_at_millis, id);
CREATE INDEX IF NOT EXISTS {prefix}anomalies_of_kind ON {prefix}anomalies (kind, first_at_millis, id);
CREATE INDEX IF NOT EXISTS {prefix}anomalies_of_player ON {prefix}anomalies (player_id, first_at_millis, id)
    WHERE player_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS {prefix}anomalies_nameless ON {prefix}anomalies (first_at_millis, id)
    WHERE player_id IS NULL AND bet_id IS NULL AND tx_id IS NULL;
-- By id, also the first characters of one; and those that came again, by when they did last.
CREATE INDEX IF NOT EXISTS {prefix}anomalies_of_bet ON {prefix}anomalies (bet_id, source) WHERE bet_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS {prefix}anomalies_of_call ON {prefix}anomalies (tx_id) WHERE tx_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS {prefix}anomalies_again ON {prefix}anomalies (last_at_millis)
    WHERE last_at_millis > first_at_millis;
CREATE INDEX IF NOT EXISTS {prefix}findings_waiting ON {prefix}findings (source, id) WHERE resolved_at_millis IS NULL;

CREATE OR REPLACE FUNCTION {prefix}refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND (SELECT value FROM {prefix}meta WHERE name = 'pruning') = 4 THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'postings are never changed, and never deleted outside prune or by programs older than version 4';
END $$;

UPDATE {prefix}meta SET value = 4 WHERE name = 'pruning';
INSERT INTO {prefix}carried AS kept (account, cents, last_id, at_millis)
    SELECT tx_id, CASE WHEN to_account IS NULL THEN -amount_cents ELSE amount_cents END, id, at_millis
    FROM {prefix}postings WHERE operation = 'carry'
    ON CONFLICT (account) DO UPDATE SET cents = kept.cents + excluded.cents, last_id = excluded.last_id,
        at_millis = excluded.at_millis;
DELETE FROM {prefix}postings WHERE operation = 'carry';
UPDATE {prefix}meta SET value = 0 WHERE name = 'pruning';

DROP INDEX IF EXISTS {prefix}postings_carried;
UPDATE {prefix}meta SET value = 4 WHERE name = 'version';
