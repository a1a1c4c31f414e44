-- Version 4. Programs of version 3 that are running go on, except for their prune, which is refused: folded postings are
-- carried in a table now.

-- What is left of an interrupted CREATE INDEX CONCURRENTLY would pass for the index.
DO $$
    DECLARE
        unusable record;
    BEGIN
        FOR unusable IN
            SELECT CAST(CAST(indexrelid AS regclass) AS text) AS name FROM pg_index WHERE NOT indisvalid AND indrelid IN (
                to_regclass('{prefix}bets'), to_regclass('{prefix}calls'), to_regclass('{prefix}postings'),
                to_regclass('{prefix}anomalies'), to_regclass('{prefix}findings')
            )
        LOOP
            EXECUTE 'DROP INDEX ' || unusable.name;
        END LOOP;
    END
$$;

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

-- Bets of a source by time. The index it replaces led through the bets of all other sources, too. Its condition
-- holds for every row. It keeps the index from plans of calls, which name no time: over an empty table they chose it.
CREATE INDEX IF NOT EXISTS {prefix}bets_of_source ON {prefix}bets (source, opened_at_millis)
    WHERE opened_at_millis IS NOT NULL;
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
    -- The way back leaves the rest of a row.
    ON CONFLICT (account) DO UPDATE SET cents = kept.cents + excluded.cents;
DELETE FROM {prefix}postings WHERE operation = 'carry';
UPDATE {prefix}meta SET value = 0 WHERE name = 'pruning';

-- What was folded before comes first in the sum of what is sealed.
INSERT INTO {prefix}checkpoints (account, cents, last_id, at_millis)
    SELECT account, cents, last_id, at_millis FROM {prefix}carried WHERE true ON CONFLICT (account) DO NOTHING;

DROP INDEX IF EXISTS {prefix}postings_carried;

-- From here on postings are partitioned by UTC day. What was there becomes one partition, which ends at the next midnight;
-- in large tables an index and a check, made before while calls went on, spare it the work. What has no partition, such as a posting
-- from a clock that was ahead, is in the default one. Identity columns of partitioned tables need PostgreSQL 17.
DO $$
    DECLARE
        next_day CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) / 86400) + 1;
        first_day bigint;
        last_id bigint;
        holder record;
        referring text;
    BEGIN
        IF (SELECT relkind FROM pg_class WHERE oid = to_regclass('{prefix}postings')) = 'p' THEN
            RETURN;
        END IF;
        -- They would go on with what was there alone, and miss each new posting without a word.
        SELECT string_agg(what, ', ' ORDER BY what) INTO referring FROM (
            SELECT 'the view ' || CAST(CAST(ev_class AS regclass) AS text) FROM pg_depend JOIN pg_rewrite ON pg_rewrite.oid = objid
            WHERE classid = CAST('pg_rewrite' AS regclass) AND refobjid = to_regclass('{prefix}postings')
                AND ev_class <> refobjid
            UNION SELECT 'the publication ' || quote_ident(pubname) FROM pg_publication_rel
            JOIN pg_publication ON pg_publication.oid = prpubid WHERE prrelid = to_regclass('{prefix}postings')
            UNION SELECT 'the foreign key ' || quote_ident(conname) FROM pg_constraint
            WHERE contype = 'f' AND confrelid = to_regclass('{prefix}postings')
            UNION SELECT 'the trigger ' || quote_ident(tgname) FROM pg_trigger WHERE tgrelid = to_regclass('{prefix}postings')
                AND NOT tgisinternal AND tgname NOT IN ('{prefix}postings_stay', '{prefix}postings_remain')
            UNION SELECT 'the rule ' || quote_ident(rulename) FROM pg_rewrite WHERE ev_class = to_regclass('{prefix}postings')
            UNION SELECT 'the policy ' || quote_ident(polname) FROM pg_policy WHERE polrelid = to_regclass('{prefix}postings')
        ) AS users (what);
        IF referring IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'object_in_use', MESSAGE = 'The migration replaces {prefix}postings by a '
                'partitioned table, and these refer to it: ' || referring;
        END IF;
        LOCK TABLE {prefix}postings IN ACCESS EXCLUSIVE MODE;
        first_day := greatest((SELECT value FROM {prefix}meta WHERE name = 'days_since'), next_day);
        last_id := greatest(
            coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('{prefix}postings', 'id') AS regclass)), 0),
            coalesce((SELECT max(id) FROM {prefix}postings), 0)
        );
        CREATE UNIQUE INDEX IF NOT EXISTS {prefix}postings_before_pkey ON {prefix}postings (id, at_millis);
        ALTER TABLE {prefix}postings RENAME TO {prefix}postings_before;
        ALTER TABLE {prefix}postings_before ALTER COLUMN id DROP IDENTITY;
        ALTER INDEX {prefix}postings_of_account RENAME TO {prefix}postings_before_of_account;
        ALTER TABLE {prefix}postings_before DROP CONSTRAINT {prefix}postings_pkey;
        ALTER TABLE {prefix}postings_before
            ADD CONSTRAINT {prefix}postings_before_pkey PRIMARY KEY USING INDEX {prefix}postings_before_pkey;
        -- The new table's own take their place.
        DROP TRIGGER {prefix}postings_stay ON {prefix}postings_before;

        CREATE SEQUENCE {prefix}postings_id_seq;
        CREATE TABLE {prefix}postings (
            id bigint NOT NULL DEFAULT nextval('{prefix}postings_id_seq'),
            from_account text COLLATE "C",
            to_account text COLLATE "C",
            amount_cents bigint NOT NULL,
            source text COLLATE "C" NOT NULL,
            operation text COLLATE "C" NOT NULL,
            tx_id text COLLATE "C" NOT NULL,
            at_millis bigint NOT NULL,
            CONSTRAINT {prefix}postings_amount_cents_check CHECK (amount_cents > 0),
            CONSTRAINT {prefix}postings_check CHECK ((from_account IS NULL) <> (to_account IS NULL)),
            PRIMARY KEY (id, at_millis)
        ) PARTITION BY RANGE (at_millis);
        ALTER SEQUENCE {prefix}postings_id_seq OWNED BY {prefix}postings.id;
        -- As of an identity column: the right to insert is enough. It is no right to set the sequence.
        GRANT USAGE ON SEQUENCE {prefix}postings_id_seq TO PUBLIC;
        PERFORM setval('{prefix}postings_id_seq', greatest(last_id, 1), last_id > 0);
        CREATE INDEX {prefix}postings_of_account
            ON {prefix}postings ((COALESCE(to_account, from_account)), at_millis);
        CREATE TABLE {prefix}postings_default PARTITION OF {prefix}postings DEFAULT;
        CREATE TRIGGER {prefix}postings_stay BEFORE UPDATE OR DELETE ON {prefix}postings
            FOR EACH ROW EXECUTE FUNCTION {prefix}refuse_change();
        CREATE TRIGGER {prefix}postings_remain BEFORE TRUNCATE ON {prefix}postings
            FOR EACH STATEMENT EXECUTE FUNCTION {prefix}refuse_change();
        CREATE TRIGGER {prefix}postings_remain BEFORE TRUNCATE ON {prefix}postings_default
            FOR EACH STATEMENT EXECUTE FUNCTION {prefix}refuse_change();

        FOR holder IN
            SELECT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END AS name,
                string_agg(acl.privilege_type, ', ') AS rights, bool_or(acl.privilege_type = 'INSERT') AS writes,
                bool_or(acl.privilege_type = 'SELECT') AS reads
            FROM pg_class AS class CROSS JOIN aclexplode(class.relacl) AS acl
            WHERE class.oid = to_regclass('{prefix}postings_before') AND acl.grantee <> class.relowner GROUP BY acl.grantee
        LOOP
            EXECUTE 'GRANT ' || holder.rights || ' ON {prefix}postings TO ' || holder.name;
            IF holder.reads THEN
                EXECUTE 'GRANT SELECT ON {prefix}postings_default TO ' || holder.name;
            END IF;
            IF holder.writes THEN
                EXECUTE 'GRANT USAGE, SELECT, UPDATE ON SEQUENCE {prefix}postings_id_seq TO ' || holder.name;
            END IF;
        END LOOP;

        IF last_id > 0 AND EXISTS (SELECT FROM {prefix}postings_before) THEN
            IF NOT EXISTS (
                SELECT FROM pg_constraint WHERE conrelid = to_regclass('{prefix}postings_before')
                    AND conname = '{prefix}postings_before_ends' AND convalidated
            ) THEN
                EXECUTE 'WITH moved AS (DELETE FROM {prefix}postings_before WHERE at_millis >= ' || first_day * 86400000
                    || ' RETURNING *) INSERT INTO {prefix}postings_default SELECT * FROM moved';
            END IF;
            EXECUTE 'ALTER TABLE {prefix}postings ATTACH PARTITION {prefix}postings_before FOR VALUES FROM (MINVALUE) TO ('
                || first_day * 86400000 || ')';
            ALTER TABLE {prefix}postings_before DROP CONSTRAINT IF EXISTS {prefix}postings_before_ends;
            INSERT INTO {prefix}meta (name, value) VALUES ('days_since', first_day)
                ON CONFLICT (name) DO UPDATE SET value = excluded.value;
        ELSE
            DROP TABLE {prefix}postings_before;
        END IF;
    END
$$;

-- What follows changes partitions for a user who has no rights to. All that is asked of it is a day, and each looks by
-- itself at whether it may. They give up soon, because calls wait behind them. Nothing in their search_path can be made by
-- others, such as an operator that fits better than PostgreSQL's: below, the schema's name takes the place of this_schema.

-- Makes the partition of a UTC day: 'made', 'there', 'before' what is partitioned, or 'out of range'. It takes no ids of
-- what was sealed by now: a sequence that is set back later, or begins anew on another server, is noticed by the next call.
CREATE OR REPLACE FUNCTION {prefix}make_day(day date) RETURNS text
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
        ELSIF day_number < (SELECT value FROM this_schema.{prefix}meta WHERE name = 'days_since') THEN
            RETURN 'before';
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
        UPDATE this_schema.{prefix}meta SET value = 4 WHERE name = 'pruning';
        EXECUTE move;
        -- Writers wait from here on, at the table: one that waited at its default partition would find that its row belongs
        -- to another by now, and fail. What they have stored meanwhile follows.
        LOCK TABLE ONLY this_schema.{prefix}postings IN SHARE ROW EXCLUSIVE MODE;
        LOCK TABLE this_schema.{prefix}postings_default IN ACCESS EXCLUSIVE MODE;
        EXECUTE move;
        UPDATE this_schema.{prefix}meta SET value = 0 WHERE name = 'pruning';
        EXECUTE 'ALTER TABLE this_schema.{prefix}postings ATTACH PARTITION ' || day_table || ' FOR VALUES FROM (' || day_number * 86400000
            || ') TO (' || (day_number + 1) * 86400000 || ')';
        EXECUTE 'ALTER TABLE ' || day_table || ' DROP CONSTRAINT of_this_day';
        RETURN 'made';
    END
$$;

-- Carries the postings of a day forward and detaches its partition, or gives the reason why not.
CREATE OR REPLACE FUNCTION {prefix}fold_day(day date, OUT reason text, OUT postings bigint)
    LANGUAGE plpgsql STRICT SECURITY DEFINER SET lock_timeout = '300ms' AS $$
    DECLARE
        day_number CONSTANT bigint := day - date '1970-01-01';
        today CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) / 86400);
        day_table CONSTANT text := 'this_schema.{prefix}postings_' || to_char(day, 'YYYYMMDD');
        held record;
        sealed record;
        holder text;
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
            reason := CASE WHEN to_regclass(day_table) IS NULL THEN 'missing' ELSE 'detached' END;
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
        -- It explains to verify why postings are missing.
        INSERT INTO this_schema.{prefix}meta AS kept (name, value) VALUES ('pruned_before', (day_number + 1) * 86400000)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE kept.value < excluded.value;
        INSERT INTO this_schema.{prefix}meta AS kept (name, value) VALUES ('folds', 1)
            ON CONFLICT (name) DO UPDATE SET value = kept.value + 1;
        EXECUTE 'ALTER TABLE this_schema.{prefix}postings DETACH PARTITION ' || day_table;
        -- To export it, who could read it before can read it now.
        FOR holder IN
            SELECT DISTINCT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END
            FROM pg_class CROSS JOIN aclexplode(relacl) AS acl
            WHERE oid = to_regclass('this_schema.{prefix}postings') AND acl.privilege_type = 'SELECT'
        LOOP
            EXECUTE 'GRANT SELECT ON ' || day_table || ' TO ' || holder;
        END LOOP;
        postings := held.count;
    END
$$;

-- Drops the partition of a day that is folded: 'dropped', 'missing', 'attached', 'not folded' or 'not 90 days over'.
CREATE OR REPLACE FUNCTION {prefix}drop_day(day date) RETURNS text
    LANGUAGE plpgsql STRICT SECURITY DEFINER SET lock_timeout = '300ms' AS $$
    DECLARE
        day_number CONSTANT bigint := day - date '1970-01-01';
        today CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) / 86400);
        day_table CONSTANT text := 'this_schema.{prefix}postings_' || to_char(day, 'YYYYMMDD');
        held bigint;
    BEGIN
        PERFORM pg_advisory_xact_lock(hashtext('{prefix}days'));
        -- To to_regclass alone, what another has dropped while this one waited may seem to be there. And what somebody
        -- else has made under this name, such as a view, would run as the owner.
        IF day_number < 0 OR NOT EXISTS (
            SELECT FROM pg_class AS part JOIN pg_class AS whole USING (relowner)
            WHERE part.oid = to_regclass(day_table) AND part.relkind = 'r'
                AND whole.oid = to_regclass('this_schema.{prefix}postings')
        ) THEN
            RETURN 'missing';
        ELSIF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(day_table)) THEN
            RETURN 'attached';
        ELSIF day_number > today - 91 THEN
            RETURN 'not 90 days over';
        END IF;
        EXECUTE 'SELECT count(*) FROM ' || day_table INTO held;
        IF held > (
            SELECT coalesce(sum(count), 0) FROM this_schema.{prefix}slices AS slice WHERE slice.day = day_number AND folded_at_millis IS NOT NULL
        ) THEN
            RETURN 'not folded';
        END IF;
        EXECUTE 'DROP TABLE ' || day_table;
        RETURN 'dropped';
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
                (CAST('{prefix}fold_day(date)' AS regprocedure), 'DELETE'),
                (CAST('{prefix}drop_day(date)' AS regprocedure), 'DELETE')
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

UPDATE {prefix}meta SET value = 4 WHERE name = 'version';
