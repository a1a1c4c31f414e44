-- The tables of version 6. Every row of money is written once; what is unique is a constraint. Ids are compared bytewise.

CREATE TABLE {prefix}meta (
    name text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

-- The version of these tables, and the oldest version whose programs may write. Each statement that writes asks for the
-- second. A migration that only adds leaves it as it is.
INSERT INTO {prefix}meta VALUES ('version', 6), ('oldest_writer', 6), ('dropping', 0);

-- What each player holds, in cents, and when it last moved.
CREATE TABLE {prefix}accounts (
    account text COLLATE "C" PRIMARY KEY,
    balance_cents bigint NOT NULL,
    at_millis bigint NOT NULL
) WITH (fillfactor = 70);

-- When a balance in the operator's own table last moved.
CREATE TABLE {prefix}clocks (
    account text COLLATE "C" PRIMARY KEY,
    at_millis bigint NOT NULL
) WITH (fillfactor = 70);

-- Which ledger moves the balances in a table of the operator's. All ledgers here share this table, so its name is fixed.
CREATE TABLE IF NOT EXISTS game_operator_balance_tables (
    name text COLLATE "C" PRIMARY KEY,
    prefix text COLLATE "C" NOT NULL
);

-- Accounts whose time was brought back: postings up to this id may be later than those after it.
CREATE TABLE {prefix}corrections (
    account text COLLATE "C" NOT NULL,
    last_posting_id bigint NOT NULL,
    from_millis bigint NOT NULL,
    to_millis bigint NOT NULL,
    PRIMARY KEY (account, last_posting_id)
);

-- The services and environments whose calls are taken, "" included; none is ever removed.
CREATE TABLE {prefix}sources (
    name text COLLATE "C" PRIMARY KEY,
    origin text COLLATE "C" NOT NULL CHECK (origin IN ('first call', 'found', 'added')),
    at_millis bigint NOT NULL,
    is_first boolean NOT NULL
);

-- Two processes that begin at once with different sources cannot both be the first, whatever each of them sees.
CREATE UNIQUE INDEX {prefix}sources_first ON {prefix}sources (is_first) WHERE is_first;

-- The name of this ledger, if its programs give it one: a single row.
CREATE TABLE {prefix}ledger_name (
    number bigint PRIMARY KEY CHECK (number = 1),
    name text COLLATE "C" NOT NULL,
    at_millis bigint NOT NULL
);

-- When bets were stopped and started again, by whom and why. While one holds, the row 'oldest_writer_of_bets' of meta is
-- above every version.
CREATE TABLE {prefix}bet_stops (
    number bigint PRIMARY KEY,
    code text COLLATE "C" NOT NULL,
    stopped_at_millis bigint NOT NULL,
    stopped_by text COLLATE "C" NOT NULL,
    stop_reason text COLLATE "C" NOT NULL,
    started_at_millis bigint,
    started_by text COLLATE "C",
    start_reason text COLLATE "C"
);

-- One at a time holds.
CREATE UNIQUE INDEX {prefix}bet_stops_now ON {prefix}bet_stops ((started_at_millis IS NULL)) WHERE started_at_millis IS NULL;

-- Every call that was answered for good: what makes it the same call again, and its answer.
CREATE TABLE {prefix}calls (
    source text COLLATE "C" NOT NULL,
    operation text COLLATE "C" NOT NULL,
    tx_id text COLLATE "C" NOT NULL,
    player_id text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    bet_id text COLLATE "C",
    action text COLLATE "C" NOT NULL,
    amount_cents bigint NOT NULL,
    code text COLLATE "C",
    balance_cents bigint,
    at_millis bigint NOT NULL,
    body bytea,
    -- What totals are grouped by.
    instance_id text COLLATE "C",
    game text COLLATE "C",
    currency text COLLATE "C",
    -- The id first: with a list of ids, the planner would use no more of the index than stands before it.
    PRIMARY KEY (tx_id, operation, source)
);

-- Calls are stored in the order of their times and seldom changed, so a few bytes for many pages do.
CREATE INDEX {prefix}calls_at ON {prefix}calls USING brin (at_millis) WITH (pages_per_range = 32, autosummarize = on);
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
    bet_id text COLLATE "C" NOT NULL,
    player_id text COLLATE "C" NOT NULL,
    account text COLLATE "C" NOT NULL,
    instance_id text COLLATE "C",
    game text COLLATE "C",
    round_id text COLLATE "C",
    wager_cents bigint NOT NULL CHECK (wager_cents >= 0),
    won_cents bigint CHECK (won_cents >= 0),
    state text COLLATE "C" NOT NULL
        CHECK (state IN ('OPEN', 'SPENT', 'CLOSED', 'ROLLED_BACK', 'TOMBSTONE', 'DECLINED')),
    opened_at_millis bigint NOT NULL,
    settled_at_millis bigint,
    action text COLLATE "C" NOT NULL,
    withdraw_tx_id text COLLATE "C",
    deposit_tx_id text COLLATE "C",
    withdraw_digest bytea,
    source text COLLATE "C" NOT NULL,
    currency text COLLATE "C",
    -- Who settled it: NULL is a call of the provider.
    settled_by text COLLATE "C",
    PRIMARY KEY (bet_id, source)
) WITH (fillfactor = 85);

-- Bets of a source by time. Its condition holds for every row. It keeps the index from plans of calls, which name no
-- time: over an empty table they chose it.
CREATE INDEX {prefix}bets_of_source ON {prefix}bets (source, opened_at_millis) WHERE opened_at_millis IS NOT NULL;
-- Bets of an account by time, with all that is summed up of them. Most accounts have the player's id: only the bets of
-- others have an entry by player, too.
CREATE INDEX {prefix}bets_of_account ON {prefix}bets (account, opened_at_millis)
    INCLUDE (wager_cents, won_cents, state, action);
CREATE INDEX {prefix}bets_of_player ON {prefix}bets (player_id, opened_at_millis) WHERE account <> player_id;
-- Open bets by time. The account is in it to find those of one without reading the rows of all others.
CREATE INDEX {prefix}bets_open_by_time ON {prefix}bets (opened_at_millis, bet_id, account) WHERE state = 'OPEN';
CREATE INDEX {prefix}bets_rare ON {prefix}bets (state, opened_at_millis)
    WHERE state <> 'OPEN' AND state <> 'SPENT' AND state <> 'CLOSED';
-- Which bets a reconciliation looks up. A mark of how far it has looked would lose what was committed late.
CREATE INDEX {prefix}bets_spent ON {prefix}bets (opened_at_millis, bet_id) WHERE state = 'SPENT';
CREATE INDEX {prefix}bets_repaired ON {prefix}bets (settled_at_millis, bet_id) WHERE settled_by IS NOT NULL;

-- Each movement once: it sums to zero by construction. NULL is the house. Postings are partitioned by UTC day. What has no
-- partition, such as a posting from a clock that was ahead, is in the default one. Identity columns of partitioned tables
-- need PostgreSQL 17.
CREATE SEQUENCE {prefix}postings_id_seq;

CREATE TABLE {prefix}postings (
    id bigint NOT NULL DEFAULT nextval('{prefix}postings_id_seq'),
    from_account text COLLATE "C",
    to_account text COLLATE "C",
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    source text COLLATE "C" NOT NULL,
    operation text COLLATE "C" NOT NULL,
    tx_id text COLLATE "C" NOT NULL,
    at_millis bigint NOT NULL,
    CHECK ((from_account IS NULL) <> (to_account IS NULL)),
    PRIMARY KEY (id, at_millis)
) PARTITION BY RANGE (at_millis);

ALTER SEQUENCE {prefix}postings_id_seq OWNED BY {prefix}postings.id;
-- As of an identity column: the right to insert is enough. It is no right to set the sequence.
GRANT USAGE ON SEQUENCE {prefix}postings_id_seq TO PUBLIC;

CREATE INDEX {prefix}postings_of_account ON {prefix}postings ((COALESCE(to_account, from_account)), at_millis);
CREATE TABLE {prefix}postings_default PARTITION OF {prefix}postings DEFAULT;

CREATE FUNCTION {prefix}refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND (SELECT value FROM {prefix}meta WHERE name = 'dropping') = 1 THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'postings are never changed, and never deleted outside maintain';
END $$;

CREATE TRIGGER {prefix}postings_stay BEFORE UPDATE OR DELETE ON {prefix}postings
    FOR EACH ROW EXECUTE FUNCTION {prefix}refuse_change();
CREATE TRIGGER {prefix}postings_remain BEFORE TRUNCATE ON {prefix}postings
    FOR EACH STATEMENT EXECUTE FUNCTION {prefix}refuse_change();
CREATE TRIGGER {prefix}postings_remain BEFORE TRUNCATE ON {prefix}postings_default
    FOR EACH STATEMENT EXECUTE FUNCTION {prefix}refuse_change();

-- What of each account's postings maintain has folded: their sum, and the id and the time of the last one.
CREATE TABLE {prefix}carried (
    account text COLLATE "C" PRIMARY KEY,
    cents bigint NOT NULL,
    last_id bigint NOT NULL,
    at_millis bigint NOT NULL
) WITH (fillfactor = 70);

-- The sum of each account's sealed postings, with those that are folded by now, and the last one's id and time.
CREATE TABLE {prefix}checkpoints (
    account text COLLATE "C" PRIMARY KEY,
    cents bigint NOT NULL,
    last_id bigint NOT NULL,
    at_millis bigint NOT NULL
) WITH (fillfactor = 70);

-- Sealed postings: those of one day, in days since 1970 in UTC, within a window of ids. All of the window are sealed at
-- once. A sum is cents + 1,000,000,000 billions.
CREATE TABLE {prefix}slices (
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
    -- Of the calls that had made the postings that are folded.
    calls_digest bytea,
    PRIMARY KEY (day, last_id)
);

CREATE INDEX {prefix}slices_damaged ON {prefix}slices (day, last_id) WHERE findings > 0;

-- Each close of finished days, for totals. A posting is in the stored totals if its id is at most the position and its
-- day, in days since 1970 in UTC, before before_day. All with an id below first_id are.
CREATE TABLE {prefix}closes (
    number bigint PRIMARY KEY,
    position bigint NOT NULL,
    before_day bigint NOT NULL,
    first_id bigint NOT NULL,
    at_millis bigint NOT NULL
);

-- What each close has stored. An amount is cents + 1,000,000,000 billions: a day may sum up to more than 63 bits hold.
CREATE TABLE {prefix}totals (
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

CREATE INDEX {prefix}totals_day ON {prefix}totals (day);

-- What a person should look at, each once, with the body it came in.
CREATE TABLE {prefix}anomalies (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    code text COLLATE "C",
    operation text COLLATE "C" NOT NULL,
    tx_id text COLLATE "C",
    bet_id text COLLATE "C",
    player_id text COLLATE "C",
    body bytea NOT NULL,
    digest bytea NOT NULL,
    first_at_millis bigint NOT NULL,
    last_at_millis bigint NOT NULL,
    seen bigint NOT NULL,
    resolved_at_millis bigint,
    UNIQUE (source, kind, operation, digest)
);

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
CREATE UNIQUE INDEX {prefix}runs_named ON {prefix}runs (kind, name) WHERE name <> '';
CREATE UNIQUE INDEX {prefix}runs_under_way ON {prefix}runs (kind, source, service)
    WHERE name = '' AND state IN ('planning', 'running', 'paused');

CREATE TABLE {prefix}chunks (
    run_id bigint NOT NULL REFERENCES {prefix}runs (id),
    number bigint NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN ('ready', 'leased', 'done')),
    ready_at_millis bigint NOT NULL,
    lease_until_millis bigint NOT NULL DEFAULT 0,
    attempt bigint NOT NULL DEFAULT 0,
    worker text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, number)
) WITH (fillfactor = 70);

CREATE INDEX {prefix}chunks_waiting ON {prefix}chunks (run_id, number) WHERE state <> 'done';

CREATE TABLE {prefix}items (
    run_id bigint NOT NULL REFERENCES {prefix}runs (id),
    key text COLLATE "C" NOT NULL,
    chunk bigint NOT NULL,
    place bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    data text COLLATE "C" NOT NULL,
    at_stake_cents bigint NOT NULL DEFAULT 0,
    attempts bigint NOT NULL DEFAULT 0,
    evidence bytea,
    digest bytea,
    at_millis bigint,
    PRIMARY KEY (run_id, key)
) WITH (fillfactor = 70);

CREATE INDEX {prefix}items_of_chunk ON {prefix}items (run_id, chunk, place);

-- What a person should look into. Nothing is ever deleted: a finding is resolved, and one that comes back is another row.
CREATE TABLE {prefix}findings (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    tx_id text COLLATE "C" NOT NULL,
    player_id text COLLATE "C",
    account text COLLATE "C",
    detail text COLLATE "C" NOT NULL,
    at_stake_cents bigint NOT NULL,
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

CREATE UNIQUE INDEX {prefix}findings_open ON {prefix}findings (source, subject, kind)
    WHERE tx_id = '' AND resolved_at_millis IS NULL;

-- What a call has left is the same for good: its repeats open nothing again after it was resolved.
CREATE UNIQUE INDEX {prefix}findings_of_call ON {prefix}findings (source, subject, kind, tx_id)
    WHERE tx_id <> '';

CREATE INDEX {prefix}findings_of_subject ON {prefix}findings (source, subject);
CREATE INDEX {prefix}findings_waiting ON {prefix}findings (source, id) WHERE resolved_at_millis IS NULL;

-- The last answer of a service about a bet: a repair needs two that are equal. A service is an address and an operator.
CREATE TABLE {prefix}looks (
    service text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    bet_id text COLLATE "C" NOT NULL,
    at_millis bigint NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (bet_id, source, service)
);

-- Documents by name, such as the last good catalogue of a service.
CREATE TABLE {prefix}documents (
    name text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL,
    at_millis bigint NOT NULL
);

-- What follows changes partitions for a user who has no rights to. All that is asked of it is a day, and each looks by
-- itself at whether it may. They give up soon, because calls wait behind them. Nothing in their search_path can be made by
-- others, such as an operator that fits better than PostgreSQL's: below, the schema's name takes the place of this_schema.

-- Makes the partition of a UTC day: 'made', 'there' or 'out of range'. It takes no ids of what was sealed by now: a sequence
-- that is set back later, or begins anew on another server, is noticed by the next call.
CREATE FUNCTION {prefix}make_day(day date) RETURNS text
    LANGUAGE plpgsql STRICT SECURITY DEFINER SET lock_timeout = '300ms' AS $$
    DECLARE
        day_number CONSTANT bigint := day - date '1970-01-01';
        today CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) / 86400);
        day_table CONSTANT text := 'this_schema.{prefix}postings_' || to_char(day, 'YYYYMMDD');
        is_it CONSTANT text := '(at_millis >= ' || day_number * 86400000 || ' AND at_millis < ' || (day_number + 1) * 86400000 || ')';
        move CONSTANT text := 'WITH moved AS (DELETE FROM this_schema.{prefix}postings_default WHERE ' || is_it
            || ' RETURNING *) INSERT INTO ' || day_table || ' SELECT * FROM moved';
        last_sealed bigint;
    BEGIN
        IF day_number NOT BETWEEN today - 1 AND today + 60 THEN
            RETURN 'out of range';
        END IF;
        PERFORM pg_advisory_xact_lock(hashtext('{prefix}days'));
        -- What another has made while this one waited is known to the catalog. It need not be known to to_regclass.
        IF EXISTS (
            SELECT FROM pg_class WHERE relname = '{prefix}postings_' || to_char(day, 'YYYYMMDD')
                AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('this_schema.{prefix}postings'))
        ) THEN
            RETURN 'there';
        END IF;
        EXECUTE 'CREATE TABLE ' || day_table || ' (LIKE this_schema.{prefix}postings INCLUDING CONSTRAINTS, PRIMARY KEY (id, at_millis), '
            'CONSTRAINT of_this_day CHECK ' || is_it || ')';
        last_sealed := coalesce((SELECT value FROM this_schema.{prefix}meta WHERE name = 'checkpoint_position'), 0);
        EXECUTE 'SELECT least(' || last_sealed || ', min(id) - 1) FROM this_schema.{prefix}postings_default WHERE ' || is_it
            INTO last_sealed;
        EXECUTE 'ALTER TABLE ' || day_table || ' ADD CONSTRAINT {prefix}postings_' || to_char(day, 'YYYYMMDD')
            || '_above CHECK (id > ' || last_sealed || ')';
        EXECUTE 'CREATE INDEX ON ' || day_table || ' ((COALESCE(to_account, from_account)), at_millis)';
        EXECUTE 'CREATE TRIGGER {prefix}postings_remain BEFORE TRUNCATE ON ' || day_table
            || ' FOR EACH STATEMENT EXECUTE FUNCTION this_schema.{prefix}refuse_change()';
        UPDATE this_schema.{prefix}meta SET value = 1 WHERE name = 'dropping';
        EXECUTE move;
        -- Writers wait from here on, at the table: one that waited at its default partition would find that its row belongs
        -- to another by now, and fail. What they have stored meanwhile follows.
        LOCK TABLE ONLY this_schema.{prefix}postings IN SHARE ROW EXCLUSIVE MODE;
        LOCK TABLE this_schema.{prefix}postings_default IN ACCESS EXCLUSIVE MODE;
        EXECUTE move;
        UPDATE this_schema.{prefix}meta SET value = 0 WHERE name = 'dropping';
        EXECUTE 'ALTER TABLE this_schema.{prefix}postings ATTACH PARTITION ' || day_table || ' FOR VALUES FROM (' || day_number * 86400000
            || ') TO (' || (day_number + 1) * 86400000 || ')';
        EXECUTE 'ALTER TABLE ' || day_table || ' DROP CONSTRAINT of_this_day';
        RETURN 'made';
    END
$$;

-- Carries the postings of a day forward and drops its partition, or gives the reason why not.
CREATE FUNCTION {prefix}fold_day(day date, OUT reason text, OUT postings bigint)
    LANGUAGE plpgsql STRICT SECURITY DEFINER SET lock_timeout = '300ms' AS $$
    DECLARE
        day_number CONSTANT bigint := day - date '1970-01-01';
        today CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) / 86400);
        day_table CONSTANT text := 'this_schema.{prefix}postings_' || to_char(day, 'YYYYMMDD');
        held record;
        sealed record;
    BEGIN
        postings := 0;
        -- A day before Christ would have the name of another.
        IF day_number NOT BETWEEN 0 AND today - 91 THEN
            reason := 'not 90 days over';
            RETURN;
        END IF;
        PERFORM pg_advisory_xact_lock(hashtext('{prefix}days'));
        IF NOT EXISTS (
            SELECT FROM pg_inherits WHERE inhrelid = to_regclass(day_table) AND inhparent = to_regclass('this_schema.{prefix}postings')
        ) THEN
            reason := 'missing';
            RETURN;
        END IF;
        EXECUTE 'LOCK TABLE ' || day_table || ' IN SHARE MODE';
        EXECUTE 'SELECT count(*) AS count, coalesce(max(id), 0) AS last_id, '
            'coalesce(sum(CASE WHEN to_account IS NULL THEN -amount_cents ELSE amount_cents END), 0) AS cents FROM ' || day_table
            INTO held;
        SELECT coalesce(sum(count), 0) AS count, coalesce(sum(findings), 0) AS findings,
            coalesce(sum(CAST(billions AS numeric) * 1000000000 + cents), 0) AS cents
        INTO sealed FROM this_schema.{prefix}slices AS slice WHERE slice.day = day_number AND folded_at_millis IS NULL;
        reason := CASE
            WHEN sealed.findings > 0 THEN 'findings'
            WHEN held.last_id > coalesce((SELECT value FROM this_schema.{prefix}meta WHERE name = 'checkpoint_position'), 0)
                OR sealed.count < held.count THEN 'not sealed'
            WHEN sealed.count <> held.count OR sealed.cents <> held.cents THEN 'damaged'
            WHEN NOT EXISTS (
                SELECT FROM this_schema.{prefix}closes WHERE before_day > day_number AND position >= held.last_id
            ) THEN 'not closed'
            WHEN EXISTS (
                SELECT FROM this_schema.{prefix}bets WHERE state = 'OPEN'
                    AND opened_at_millis >= day_number * 86400000 AND opened_at_millis < (day_number + 1) * 86400000
            ) THEN 'open bets'
            ELSE ''
        END;
        IF reason <> '' THEN
            RETURN;
        END IF;
        EXECUTE 'INSERT INTO this_schema.{prefix}carried AS kept (account, cents, last_id, at_millis) '
            'SELECT COALESCE(to_account, from_account) AS account, '
            'CAST(sum(CASE WHEN to_account IS NULL THEN -amount_cents ELSE amount_cents END) AS bigint), max(id), '
            '(array_agg(at_millis ORDER BY id DESC))[1] FROM ' || day_table || ' GROUP BY 1 ORDER BY 1 '
            'ON CONFLICT (account) DO UPDATE SET cents = kept.cents + excluded.cents, '
            'last_id = greatest(kept.last_id, excluded.last_id), '
            'at_millis = CASE WHEN excluded.last_id > kept.last_id THEN excluded.at_millis ELSE kept.at_millis END';
        UPDATE this_schema.{prefix}slices AS slice SET folded_at_millis = floor(extract(epoch FROM clock_timestamp()) * 1000)
            WHERE slice.day = day_number AND folded_at_millis IS NULL;
        INSERT INTO this_schema.{prefix}meta AS kept (name, value) VALUES ('folds', 1)
            ON CONFLICT (name) DO UPDATE SET value = kept.value + 1;
        EXECUTE 'DROP TABLE ' || day_table;
        postings := held.count;
    END
$$;

-- Each looks for its tables in this schema alone, and so does what it triggers. Who may store postings may make days, and
-- who may delete them may fold.
DO $$
    DECLARE
        made record;
        here CONSTANT text := quote_ident(current_schema());
    BEGIN
        EXECUTE 'ALTER FUNCTION {prefix}refuse_change() SET search_path = ' || here || ', pg_temp';
        FOR made IN
            SELECT each.id AS name, each.rights FROM (VALUES
                (CAST('{prefix}make_day(date)' AS regprocedure), 'INSERT'),
                (CAST('{prefix}fold_day(date)' AS regprocedure), 'DELETE')
            ) AS each (id, rights)
        LOOP
            EXECUTE replace(pg_get_functiondef(made.name), 'this_schema.', here || '.');
            EXECUTE 'ALTER FUNCTION ' || made.name || ' SET search_path = pg_catalog, pg_temp';
            EXECUTE 'REVOKE ALL ON FUNCTION ' || made.name || ' FROM PUBLIC';
            EXECUTE coalesce((
                SELECT string_agg('GRANT EXECUTE ON FUNCTION ' || made.name || ' TO '
                    || quote_ident(pg_get_userbyid(acl.grantee)), '; ')
                FROM pg_class AS class CROSS JOIN aclexplode(class.relacl) AS acl
                WHERE class.oid = to_regclass('{prefix}postings') AND acl.privilege_type = made.rights
                    AND acl.grantee NOT IN (0, class.relowner)
            ), 'SELECT');
        END LOOP;
    END
$$;
