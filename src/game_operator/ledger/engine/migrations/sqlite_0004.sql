-- Version 4. Programs of version 3 that are running go on, except for their prune, which is refused: folded postings are
-- carried in a table now.

-- What of each account's postings prune has folded: their sum, and the id and the time of the last one.
CREATE TABLE IF NOT EXISTS {prefix}carried (
    account TEXT NOT NULL PRIMARY KEY,
    cents INTEGER NOT NULL,
    last_id INTEGER NOT NULL,
    at_millis INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The sum of each account's sealed postings, with those that are folded by now, and the last one's id and time.
CREATE TABLE IF NOT EXISTS {prefix}checkpoints (
    account TEXT NOT NULL PRIMARY KEY,
    cents INTEGER NOT NULL,
    last_id INTEGER NOT NULL,
    at_millis INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Sealed postings: those of one day, in days since 1970 in UTC, within a window of ids. All of the window are sealed at
-- once. A sum is cents + 1,000,000,000 billions.
CREATE TABLE IF NOT EXISTS {prefix}slices (
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
    PRIMARY KEY (day, last_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS {prefix}slices_read ON {prefix}slices (read_at_millis) WHERE folded_at_millis IS NULL;
CREATE INDEX IF NOT EXISTS {prefix}slices_damaged ON {prefix}slices (day, last_id) WHERE findings > 0;

CREATE INDEX IF NOT EXISTS {prefix}postings_of_account
    ON {prefix}postings (COALESCE(to_account, from_account), at_millis);
CREATE INDEX IF NOT EXISTS {prefix}calls_at ON {prefix}calls (at_millis);
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
-- Open bets by time. The account is in it to find those of one without reading the rows of all others.
CREATE INDEX IF NOT EXISTS {prefix}bets_open_by_time ON {prefix}bets (opened_at_millis, bet_id, account)
    WHERE state = 'OPEN';
DROP INDEX IF EXISTS {prefix}bets_open;
CREATE INDEX IF NOT EXISTS {prefix}bets_rare ON {prefix}bets (state, opened_at_millis)
    WHERE state <> 'OPEN' AND state <> 'SPENT' AND state <> 'CLOSED';

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

DROP TRIGGER {prefix}postings_remain;

CREATE TRIGGER {prefix}postings_remain BEFORE DELETE ON {prefix}postings
WHEN (SELECT value FROM {prefix}meta WHERE name = 'pruning') IS NOT 4
BEGIN
    SELECT RAISE(ABORT, 'postings are never deleted outside prune, and not by programs older than version 4');
END;

UPDATE {prefix}meta SET value = 4 WHERE name = 'pruning';
INSERT INTO {prefix}carried (account, cents, last_id, at_millis)
    SELECT tx_id, CASE WHEN to_account IS NULL THEN -amount_cents ELSE amount_cents END, id, at_millis
    FROM {prefix}postings WHERE operation = 'carry'
    -- The way back leaves the rest of a row.
    ON CONFLICT (account) DO UPDATE SET cents = cents + excluded.cents;
DELETE FROM {prefix}postings WHERE operation = 'carry';
UPDATE {prefix}meta SET value = 0 WHERE name = 'pruning';

-- Ids of postings are given again if those who had them are gone; the latest close stands for the same ones as before.
UPDATE {prefix}closes SET position = highest.id,
        first_id = CASE WHEN first_id > highest.id + 1 THEN highest.id + 1 ELSE first_id END
    FROM (SELECT COALESCE(MAX(id), 0) AS id FROM {prefix}postings) AS highest
    WHERE number = (SELECT MAX(number) FROM {prefix}closes) AND position > highest.id;
UPDATE {prefix}carried SET last_id = highest.id
    FROM (SELECT COALESCE(MAX(id), 0) AS id FROM {prefix}postings) AS highest WHERE last_id > highest.id;

-- What was folded before comes first in the sum of what is sealed.
INSERT INTO {prefix}checkpoints (account, cents, last_id, at_millis)
    SELECT account, cents, last_id, at_millis FROM {prefix}carried WHERE true ON CONFLICT (account) DO NOTHING;

DROP INDEX IF EXISTS {prefix}postings_carried;
UPDATE {prefix}meta SET value = 4 WHERE name = 'version';
