"""Partitions of postings by day on PostgreSQL: made, archived and dropped, without rights to make tables."""

import csv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from game_operator.ledger import SqlLedger
from game_operator.ledger.books import maintain
from game_operator.ledger.books.maintain import Maintenance
from game_operator.ledger.books.retention import fold_day, make_day, missing_days, partitioned_days
from game_operator.models.webhooks import DepositCall, WithdrawCall
from tests.support.calls import deposit, withdraw
from tests.support.ledgers import funded
from tests.support.raw_sql import damage, rows, run, wait_for_a_lock

pytestmark = [pytest.mark.outside, pytest.mark.usefixtures("few_days")]

P = "game_operator_"
EPOCH = date(1970, 1, 1)
QUARTER = timedelta(days=90)
DAY = 86_400_000
PARTS = (
    "SELECT CAST(inhrelid AS regclass)::text FROM pg_inherits WHERE inhparent = to_regclass('{p}postings') ORDER BY 1"
)
WHERE = "SELECT CAST(tableoid AS regclass)::text, count(*) FROM {p}postings GROUP BY 1 ORDER BY 1"


def today() -> date:
    """Return the day it is in UTC."""
    return datetime.now(UTC).date()


def part(day: date) -> str:
    """Return the name of the partition of *day*."""
    return f"{P}postings_{day:%Y%m%d}"


def number(day: date) -> int:
    """Return a day as it is counted since 1970."""
    return (day - EPOCH).days


def age(url: str, days: int) -> date:
    """Move all that is stored *days* back, into a partition of that day; return the day."""
    day = today() - timedelta(days)
    low = (day - EPOCH).days * DAY
    back = days * DAY
    damage(
        url,
        [
            f"CREATE TABLE {part(day)} PARTITION OF {{p}}postings FOR VALUES FROM ({low}) TO ({low + DAY})",
            f"UPDATE {{p}}postings SET at_millis = at_millis - {back}",
            f"UPDATE {{p}}calls SET at_millis = at_millis - {back}",
            f"UPDATE {{p}}accounts SET at_millis = at_millis - {back}",
            f"UPDATE {{p}}bets SET opened_at_millis = opened_at_millis - {back}",
            f"UPDATE {{p}}bets SET settled_at_millis = settled_at_millis - {back}",
        ],
    )
    return day


@pytest.fixture
def ledger(postgres_url: str) -> Iterator[SqlLedger]:
    """A ledger with one bet that was settled."""
    with funded(postgres_url, 100) as opened:
        assert opened.apply(withdraw("b1")).applied
        assert opened.apply(deposit("b1")).applied
        yield opened


def close_and_seal(ledger: SqlLedger) -> None:
    """Close all days that are over, and seal what is stored; a posting of today says that the clock is right."""
    ledger.open_account("p2", Decimal(1))
    ledger.maintain()


def is_sound_but_for_a_digest(ledger: SqlLedger) -> bool:
    """Return whether the books are; ``maintain`` notes a digest of what is folded, and the function does not."""
    return {finding.kind for finding in ledger.verify(full=True).findings} <= {"folded_differs"}


def test_days_are_made_ahead(ledger: SqlLedger, postgres_url: str) -> None:
    """What is in the default partition moves, and nothing else changes."""
    before = rows(postgres_url, "SELECT * FROM {p}postings ORDER BY id")
    assert rows(postgres_url, WHERE) == [(f"{P}postings_default", 3)]
    days = ledger._read(lambda: missing_days(P, 2))
    assert days == [str(today() + timedelta(ahead)) for ahead in range(3)]
    assert [ledger._write(partial(make_day, P, day)) for day in days] == ["made"] * 3
    assert ledger._read(lambda: missing_days(P, 2)) == []
    assert rows(postgres_url, WHERE) == [(part(today()), 3)]
    assert rows(postgres_url, "SELECT * FROM {p}postings ORDER BY id") == before
    assert ledger.apply(withdraw("b2")).applied
    assert ledger.verify().sound
    assert rows(postgres_url, "SELECT value FROM {p}meta WHERE name = 'dropping'") == [(0,)]


def test_which_days_are_made(ledger: SqlLedger) -> None:
    """From yesterday to 60 days ahead; a second time nothing is done."""
    for ahead, answer in ((-2, "out of range"), (-1, "made"), (60, "made"), (61, "out of range")):
        day = str(today() + timedelta(ahead))
        assert ledger._write(partial(make_day, P, day)) == answer
        assert ledger._write(partial(make_day, P, day)) == ("there" if answer == "made" else answer)


def test_partitions_refuse_changes(ledger: SqlLedger, postgres_url: str) -> None:
    """Each of them, also by its own name."""
    ledger._write(lambda: make_day(P, str(today())))
    for table in (f"{P}postings", part(today()), f"{P}postings_default"):
        with pytest.raises(psycopg.Error, match="never changed"):
            run(postgres_url, f"TRUNCATE {table}")
    for table in (f"{P}postings", part(today())):
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET tx_id = 'x'"):
            with pytest.raises(psycopg.Error, match="never changed"):
                run(postgres_url, statement)


def test_a_day_is_archived_and_dropped(ledger: SqlLedger, postgres_url: str, clerk: str, tmp_path: Path) -> None:
    """The books stay as they are, and all of it by a user without rights to make tables."""
    day = age(postgres_url, 100)
    close_and_seal(ledger)
    before = ledger.totals().by_currency()
    run(postgres_url, f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "{clerk}"')
    for name in ("make", "fold"):
        run(postgres_url, f'GRANT EXECUTE ON FUNCTION {{p}}{name}_day(date) TO "{clerk}"')
    with SqlLedger(postgres_url.replace("user=postgres", f"user={quote(clerk)}"), migrate=False) as keeper:
        assert number(day) in keeper._read(lambda: partitioned_days(P))
        report = keeper.maintain(drop_after=QUARTER, archive=tmp_path)
        assert [(each.day, each.postings) for each in report.dropped] == [(str(day), 3)]
        with Path(report.dropped[0].file).open(newline="") as file:
            assert [row["id"] for row in csv.DictReader(file)] == ["1", "2", "3"]
        assert number(day) not in keeper._read(lambda: partitioned_days(P))
        assert keeper._write(lambda: fold_day(P, number(day))) == ("missing", 0)
        assert keeper._write(lambda: make_day(P, str(today() + timedelta(20)))) == "made"
        assert keeper.apply(withdraw("b2")).applied
        assert keeper.verify().sound
        assert keeper.verify(full=True).sound
    assert rows(postgres_url, f"SELECT to_regclass('{part(day)}') IS NULL") == [(True,)]
    assert rows(postgres_url, "SELECT account, cents, last_id FROM {p}carried") == [("p1", 10_750, 3)]
    assert ledger.totals().by_currency()[0].wins == before[0].wins


def test_a_day_of_which_more_is_sealed_meanwhile(
    ledger: SqlLedger, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not archived does not go."""
    monkeypatch.setattr(maintain, "WINDOW", 2)
    day = age(postgres_url, 100)
    close_and_seal(ledger)
    folded = Maintenance._day_folded

    def without_the_last(self: Maintenance, day: int, slices: Any, **more: Any) -> Any:
        return folded(self, day, slices[:-1], **more)

    with monkeypatch.context() as patch:
        patch.setattr(Maintenance, "_day_folded", without_the_last)
        report = ledger.maintain(drop_after=QUARTER, archive=tmp_path)
    assert (report.dropped, report.kept) == ((), ((str(day), "damaged"),))
    assert rows(postgres_url, WHERE)[0] == (part(day), 3)
    assert [each.postings for each in ledger.maintain(drop_after=QUARTER, archive=tmp_path).dropped] == [3]
    assert ledger.verify(full=True).sound


#: What is done to a day that could be folded, and the reason why it cannot be any more.
SPOILED: dict[str, tuple[str, ...]] = {
    "findings": ("UPDATE {p}slices SET findings = 1",),
    "not sealed": ("UPDATE {p}meta SET value = 2 WHERE name = 'checkpoint_position'",),
    "damaged": ("UPDATE {p}postings SET amount_cents = amount_cents + 1 WHERE id = 2",),
    "not closed": ("UPDATE {p}closes SET position = 2",),
    "open bets": ("UPDATE {p}bets SET state = 'OPEN'",),
}


@pytest.mark.parametrize("reason", SPOILED)
@pytest.mark.drawn(2)
def test_a_day_that_is_not_folded(ledger: SqlLedger, postgres_url: str, reason: str) -> None:
    """It gives the reason, and nothing was changed."""
    day = age(postgres_url, 91)
    close_and_seal(ledger)
    damage(postgres_url, SPOILED[reason])
    parts = rows(postgres_url, PARTS)
    assert ledger._write(lambda: fold_day(P, number(day))) == (reason, 0)
    assert rows(postgres_url, PARTS) == parts
    assert rows(postgres_url, "SELECT count(*) FROM {p}carried") == [(0,)]


def test_the_functions_are_for_nobody_else(ledger: SqlLedger, postgres_url: str) -> None:
    """PUBLIC may not run them, their path is fixed, and all run as the tables' owner."""
    sql = (
        "SELECT proname::text, proacl::text, prosecdef, proconfig FROM pg_proc WHERE proname LIKE '%\\_day' ORDER BY 1"
    )
    found = rows(postgres_url, sql)
    assert [row[0] for row in found] == [f"{P}{name}_day" for name in ("fold", "make")]
    for _, rights, is_definer, settings in found:
        assert is_definer
        assert not any(item.startswith("=") for item in rights.strip("{}").split(","))
        assert "search_path=pg_catalog, pg_temp" in settings


#: What fits a call in the functions better than PostgreSQL's own, if it is looked for in the tables' schema.
SHADOWS = {
    "make": ("to_char(date, text) RETURNS text", "pg_advisory_xact_lock(integer) RETURNS void"),
    "fold": ("to_char(date, text) RETURNS text", "array_agg(bigint) RETURNS bigint[]"),
}
OPERATORS = {
    "/": ("numeric", "integer"),
    "||": ("text", "bigint"),
    "<": ("numeric", "bigint"),
    ">": ("bigint", "numeric"),
}


@pytest.mark.parametrize("name", SHADOWS)
def test_what_others_make_is_never_run(ledger: SqlLedger, postgres_url: str, name: str) -> None:
    """Neither functions and operators in the tables' schema, nor temporary tables, take the place of the right ones."""
    day = today() + timedelta(20) if name == "make" else age(postgres_url, 100)
    close_and_seal(ledger)
    trap = "LANGUAGE plpgsql AS $$ BEGIN RAISE 'run by %', current_user; END $$"
    with psycopg.connect(postgres_url) as attacker:
        for shadow in SHADOWS[name]:
            attacker.execute(f"CREATE FUNCTION public.{shadow} {trap}".encode())
        for number, (operator, (left, right)) in enumerate(OPERATORS.items()):
            result = "boolean" if operator in "<>" else left
            attacker.execute(f"CREATE FUNCTION public.trap_{number}({left}, {right}) RETURNS {result} {trap}".encode())
            arguments = f"LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.trap_{number}"
            attacker.execute(f"CREATE OPERATOR public.{operator} ({arguments})".encode())
        for table in ("meta", "slices", "bets", "closes", "carried", "postings", "postings_default"):
            attacker.execute(f"CREATE TEMP TABLE {P}{table} (LIKE public.{P}{table})".encode())
        attacker.execute("SET search_path = pg_temp, public, pg_catalog")
        (answer,) = attacker.execute(f"SELECT CAST(public.{P}{name}_day('{day}') AS text)".encode()).fetchone() or ("",)
        assert answer == {"make": "made", "fold": '("",3)'}[name]
        attacker.rollback()
    assert ledger.verify(full=True).sound


# --- sequences --------------------------------------------------------------------------------------------------------


def test_a_sequence_that_begins_anew_is_set_by_the_next_call(ledger: SqlLedger, postgres_url: str) -> None:
    """Under a live connection, as behind a pooler that was led to another server: the call is applied once."""
    close_and_seal(ledger)
    named, day = f"{part(today())}_above", part(today())
    run(postgres_url, f"ALTER TABLE {day} DROP CONSTRAINT {named}, ADD CONSTRAINT {named} CHECK (id > 4) NOT VALID")
    calls: tuple[WithdrawCall | DepositCall, ...] = (withdraw("b2"), deposit("b2"), withdraw("b3", round_id="r"))
    for number, call in enumerate(calls):
        run(postgres_url, "SELECT setval('{p}postings_id_seq', 1, false)")
        done = ledger.apply(call)
        assert (done.applied, done.code) == (True, None)
        repeat = ledger.apply(call)
        assert (repeat.applied, repeat.code, repeat.balance_cents) == (False, None, done.balance_cents)
        assert rows(postgres_url, "SELECT max(id) > ? FROM {p}postings", 1000 * (number + 1)) == [(True,)]
    assert ledger.verify().sound
    assert ledger.maintain().sound
    assert ledger.verify(full=True).sound


# --- beside traffic ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["make", "fold"])
def test_a_session_that_is_killed_leaves_all_as_it_was(ledger: SqlLedger, postgres_url: str, name: str) -> None:
    """All is done again from the beginning, and the books are sound in between."""
    day = str(today() + timedelta(20)) if name == "make" else str(age(postgres_url, 100))
    close_and_seal(ledger)
    parts = rows(postgres_url, PARTS)
    with psycopg.connect(postgres_url) as doomed:
        doomed.execute(f"SELECT {P}{name}_day('{day}')".encode())
        run(postgres_url, f"SELECT pg_terminate_backend({doomed.info.backend_pid}, 5000)")
        with pytest.raises(psycopg.OperationalError):
            doomed.commit()
    assert rows(postgres_url, PARTS) == parts
    assert ledger.verify(full=True).sound
    again = partial(make_day, P, day) if name == "make" else partial(fold_day, P, number(date.fromisoformat(day)))
    assert ledger._write(again) == ("made" if name == "make" else ("", 3))
    assert is_sound_but_for_a_digest(ledger)


@pytest.mark.parametrize(("name", "expected"), [("make", "there"), ("fold", "(missing,0)")])
def test_two_change_a_day_at_once(ledger: SqlLedger, postgres_url: str, name: str, expected: str) -> None:
    """The one that has waited finds it done, even if it has looked at the partition before."""
    day = str(today() + timedelta(20)) if name == "make" else str(age(postgres_url, 100))
    close_and_seal(ledger)
    call = f"SELECT CAST({P}{name}_day('{day}') AS text)".encode()
    # On a busy machine the other one must not give up before it is seen to wait.
    run(postgres_url, f"ALTER FUNCTION {{p}}{name}_day(date) SET lock_timeout = '30s'")
    with (
        ThreadPoolExecutor(1) as thread,
        psycopg.connect(postgres_url) as first,
        psycopg.connect(postgres_url) as other,
    ):
        # What it has planned and looked up before, it does not look up again.
        for each in (str(today()), "2020-01-01"):
            other.execute(f"SELECT {P}{name}_day('{each}')".encode())
            other.commit()
        other.execute("SELECT to_regclass(%s)", [part(date.fromisoformat(day))])
        first.execute(call)
        answer = thread.submit(lambda: other.execute(call).fetchone())
        wait_for_a_lock(postgres_url)
        first.commit()
        assert answer.result() == (expected,)
    assert is_sound_but_for_a_digest(ledger)
