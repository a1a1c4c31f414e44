-- Version 1. Every row of money is written once; what is unique is a constraint. Ids are compared bytewise.

CREATE TABLE {prefix}meta (
    name text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

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
    -- The id first: with a list of ids, the planner would use no more of the index than stands before it.
    PRIMARY KEY (tx_id, operation, source)
);

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
    PRIMARY KEY (bet_id, source)
) WITH (fillfactor = 85);

CREATE INDEX {prefix}bets_opened ON {prefix}bets (opened_at_millis);

-- Each movement once: it sums to zero by construction. NULL is the house.
CREATE TABLE {prefix}postings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    from_account text COLLATE "C",
    to_account text COLLATE "C",
    amount_cents bigint NOT NULL CHECK (amount_cents > 0),
    source text COLLATE "C" NOT NULL,
    operation text COLLATE "C" NOT NULL,
    tx_id text COLLATE "C" NOT NULL,
    at_millis bigint NOT NULL,
    CHECK ((from_account IS NULL) <> (to_account IS NULL))
);

CREATE FUNCTION {prefix}refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND (SELECT value FROM {prefix}meta WHERE name = 'pruning') = 1 THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'postings are never changed, and never deleted outside prune';
END $$;

CREATE TRIGGER {prefix}postings_stay BEFORE UPDATE OR DELETE ON {prefix}postings
    FOR EACH ROW EXECUTE FUNCTION {prefix}refuse_change();

CREATE TRIGGER {prefix}postings_remain BEFORE TRUNCATE ON {prefix}postings
    FOR EACH STATEMENT EXECUTE FUNCTION {prefix}refuse_change();

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

INSERT INTO {prefix}meta VALUES ('version', 1), ('pruning', 0);
