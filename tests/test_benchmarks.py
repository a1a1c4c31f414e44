"""The benchmarks run; how fast anything is, no test says."""

import contextlib
import gc
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth, ledger_stage, wrk
from benchmarks.__main__ import SUITES
from benchmarks.measure import Contender, Cost, Finding, Race, Spread, Turn, run
from benchmarks.peers import pgbench
from benchmarks.peers.pgbench import Pgbench
from benchmarks.rates import Comparison, RateRace, run_rates
from benchmarks.report import as_table, as_tables, summary
from game_operator.ledger import SqlLedger
from game_operator.webhooks import WithdrawCall

ROOT = Path(__file__).parent.parent


IN_DATABASES = ("ledger", "rules", "wallet")
#: Those that count what is done in a second, and not what a call takes.
RATES = (*IN_DATABASES, "dealer", "reconcile")


@pytest.fixture(autouse=True)
def _only_what_is_new_is_collected() -> Iterator[None]:
    """Races collect garbage before each turn, and this process holds all tests."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.artefact
@pytest.mark.outside
def test_a_benchmark_runs() -> None:
    """Once, beside its peer, against the service of the benchmarks; the findings come out as JSON."""
    found = {finding["what"]: finding["bar"] for finding in _quick("fetch-bet")}
    assert found.items() >= {("fetch_bet", 1.00), ("fetch_bet, same bet again", 0.50)}


@pytest.mark.torture
def test_every_benchmark_without_a_database_runs() -> None:
    """All of them."""
    found = {finding["what"]: finding["bar"] for finding in _quick(*(name for name in SUITES if name not in RATES))}
    assert found.items() >= {
        ("fetch_bet", 1.00),
        ("fetch_bet, same bet again", 0.50),
        ("fetch_games, 2,000 games", None),
        ("reading 2,000 games", 0.50),
        ("import game_operator", 0.10),
        ("from game_operator import OperatorClient", 1.15),
        ("fetch_bet, 64 in flight", 0.30),
        ("grant_free_bet", None),
        ("fetch_bet over https", 1.05),
        ("receiver, async handler", 1.25),
    }


@pytest.mark.outside
@pytest.mark.torture
def test_what_a_bet_costs_is_measured() -> None:
    """On plain tables and on partitioned ones, which the ledger's statements serve as they are."""
    arguments = ["--bets", "200", "--turn", "40", "--rounds", "1", "--partitions", "2", "--callers", "8"]
    command = [sys.executable, "-m", "benchmarks.per_bet", *arguments, "--modes", "after a checkpoint"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for form in ("plain", "hashed"):
        assert f"8 callers, after a checkpoint, {form}: wall " in done.stdout


@pytest.mark.outside
@pytest.mark.torture
def test_two_checkouts_are_compared_in_turns() -> None:
    """This checkout with itself: a row for each contender, and none for its peers."""
    command = [sys.executable, "-m", "benchmarks.before_after", str(ROOT), "tokens", "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == ["| SessionTokenBuilder.build"] * 2
    assert all(float(row[1].strip("*")) > 0 for row in rows)


@pytest.mark.artefact
@pytest.mark.outside
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["nowhere", "tokens"], "nowhere is not a checkout: it has no src/game_operator", id="no checkout"),
        pytest.param([str(ROOT), "fetch_bet"], "there is no benchmark fetch_bet; there are fetch-bet", id="no suite"),
    ],
)
def test_a_comparison_with_nothing_is_refused(arguments: list[str], told: str) -> None:
    """Nowhere, the installed package would be found, and compared with itself."""
    command = [sys.executable, "-m", "benchmarks.before_after", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


@pytest.mark.torture
def test_the_benchmark_of_the_dealer_runs() -> None:
    """Beside the goal, a loop by hand, and signing alone."""
    found = {(finding["what"], finding["peer"]): finding["at_least"] for finding in _quick("dealer")}
    assert found == {
        ("dealer, 16 at once", "the goal of 250 a second"): 1.0,
        ("dealer, one at a time", "the goal of 250 a second"): None,
        ("dealer, 16 at once", "httpx.AsyncClient by hand"): None,
        ("dealer, 16 at once", "two signatures alone"): None,
    }


@pytest.mark.torture
@pytest.mark.timeout(180)
def test_every_benchmark_in_a_database_runs() -> None:
    """Small: each beside the peers that are there, on both databases, with as many withdraws stored as answered."""
    found = {(finding["what"], finding["peer"]): finding["at_least"] for finding in _quick(*IN_DATABASES)}
    assert found.items() >= {
        (("SQLite, 32 connections, many players", "FastAPI, SQLAlchemy ORM"), 12.0),
        (("PostgreSQL, 32 connections, one hot player", "raw ASGI, no database"), None),
    }
    if Pgbench.found(Path(), "", ""):
        assert found.items() >= {
            (("PostgreSQL, threads, 1 caller, many players", "pgbench"), 0.6),
            (("PostgreSQL, asyncio, 32 callers, one hot player", "pgbench"), 3.0),
            (("SQLite, 32 connections, many players", "pgbench"), 0.7),
        }


@pytest.mark.outside
@pytest.mark.torture
@pytest.mark.timeout(400)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_benchmark_of_growth_runs(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Small: a table with a line for each call, look-up and piece of work, and sound books."""
    growth.main(["100", "--calls", "2", "--database", database])
    heading, *lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert heading.split()[1::2] == ["bets", "100", "goal"]
    found = {line.split("|")[1].strip() for line in lines}
    assert found >= {
        "withdraw, p50",
        "verify --full",
        "memory of maintain",
        *(f"{what}, cold" for what in growth.LOOKS),
    }


def test_growth_is_compared_with_its_goals() -> None:
    """At the largest size: a value, and a ratio to the size nearest to 10,000; both sides of each goal."""
    sizes = [100, 9_000, 50_000]
    rows = [
        growth.Row("bytes", dict(zip(sizes, [1.0, 2.0, 1_200.0], strict=True)), "{:,.0f}", most=1_200),
        growth.Row("much", dict(zip(sizes, [1.0, 2.0, 1_201.0], strict=True)), "{:,.0f}", most=1_200),
        growth.Row("call", dict(zip(sizes, [1.0, 2.0, 2.6], strict=True)), "{:.1f}", most_times=1.3),
        growth.Row("slow", dict(zip(sizes, [1.0, 2.0, 2.7], strict=True)), "{:.1f}", most_times=1.3),
        growth.Row("free", dict(zip(sizes, [1.0, 2.0, 9.0], strict=True)), "{:.1f}"),
    ]
    table = growth.as_growth_table(rows).splitlines()
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in (table[0], *table[2:])] == [
        ["bets", "100", "9,000", "50,000", "goal"],
        ["bytes", "1", "2", "1,200", "≤ 1,200, met"],
        ["much", "1", "2", "1,201", "≤ 1,200, MISSED"],
        ["call", "1.0 (0.50)", "2.0 (1.00)", "2.6 (1.30)", "≤ 1.30 times, met"],
        ["slow", "1.0 (0.50)", "2.0 (1.00)", "2.7 (1.35)", "≤ 1.30 times, MISSED"],
        ["free", "1.0", "2.0", "9.0", ""],
    ]


def test_a_missing_pgbench_is_said_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A PostgreSQL without it is enough for all else; the message says where it comes from."""
    monkeypatch.setattr(pgbench, "binary_folders", lambda: iter([Path("/nowhere")]))
    assert Pgbench.found(Path(), "", "") is None
    assert "apt-get install postgresql" in capsys.readouterr().err


def test_books_that_do_not_balance_are_refused() -> None:
    """A cent that no posting tells of, or a call without its bet, fails the benchmark that left it."""
    with ledger_stage.sqlite_file() as url:
        ledger_stage.fill_players(url, 3)
        with SqlLedger(url) as ledger:
            ledger.apply(WithdrawCall(player_id="p1", bet_id="bet-1", amount_cents=100))
        ledger_stage.check_books(url)
        assert ledger_stage.open_bets(url) == 1
        with ledger_stage.connected(url) as connection:
            connection.execute(
                "UPDATE game_operator_accounts SET balance_cents = balance_cents + 1 WHERE account = 'p2'"
            )
            connection.commit()
        with pytest.raises(RuntimeError, match="the books do not balance"):
            ledger_stage.check_books(url)


@pytest.mark.parametrize(
    ("answered", "stored", "is_right"),
    [
        pytest.param(100, 99, False, id="one answered and not stored"),
        pytest.param(100, 100, True, id="as many stored as answered"),
        pytest.param(100, 108, True, id="one on each connection was under way"),
        pytest.param(100, 109, False, id="more stored than were sent"),
    ],
)
def test_what_is_answered_must_be_stored(answered: int, stored: int, is_right: bool) -> None:
    """A refusal or a repeat is answered sooner than a withdraw is stored: it may not count as one."""
    context = (
        contextlib.nullcontext() if is_right else pytest.raises(RuntimeError, match=f"{stored} withdraws were stored")
    )
    with context:
        wrk.check_stored(answered, stored, connections=8)


@pytest.mark.parametrize(
    ("rate", "at_least", "verdict", "last_words"),
    [
        pytest.param(110.0, 1.1, "met", "Every goal is met.", id="as much as the goal"),
        pytest.param(109.0, 1.1, "MISSED", "Missed: ours, beside peer.", id="a little less than the goal"),
        pytest.param(1.0, None, "", "Nothing here has a goal.", id="without a goal"),
    ],
)
def test_a_missed_rate_is_said_plainly(rate: float, at_least: float | None, verdict: str, last_words: str) -> None:
    """The ratio of the rates decides, the goal itself included."""
    race = RateRace("race", {"ours": lambda _: rate, "peer": lambda _: 100.0}, (Comparison("ours", "peer", at_least),))
    (finding,) = run_rates(race)
    assert finding.verdict == verdict
    assert finding.ratio.median == pytest.approx(rate / 100)
    assert ("MISSED" in as_tables([finding])) is (verdict == "MISSED")
    assert summary([finding]) == last_words


def test_a_turn_that_does_nothing_is_an_error() -> None:
    """A server that answers nothing is no contender a hundred times slower."""
    race = RateRace("race", {"ours": lambda _: 0.0, "peer": lambda _: 100.0}, (Comparison("ours", "peer"),))
    with pytest.raises(RuntimeError, match="ours did nothing in"):
        list(run_rates(race, quick=True))


@pytest.mark.parametrize(
    ("ours", "bar", "verdict", "last_words"),
    [
        pytest.param(0.9, 0.90, "met", "Every goal is met.", id="as fast as the goal"),
        pytest.param(0.91, 0.90, "MISSED", "Missed: ours.", id="a little slower than the goal"),
        pytest.param(5.0, None, "", "Nothing here has a goal.", id="without a goal"),
    ],
)
def test_a_missed_goal_is_said_plainly(ours: float, bar: float | None, verdict: str, last_words: str) -> None:
    """The ratio of the processor time to the peer's decides, the goal itself included."""
    (finding,) = _race(ours, bar)
    assert finding.verdict == verdict
    assert finding.cpu_ratio.median == pytest.approx(ours)
    assert ("MISSED" in as_table([finding])) is (verdict == "MISSED")
    assert summary([finding]) == last_words


def test_ratios_are_taken_round_by_round() -> None:
    """A round that is slow for both sides, on a busy machine, changes no ratio."""

    def twice_as_slow_each_time(seconds: float) -> Turn:
        costs = (Cost(cpu=seconds * 2**number, wall=1.0) for number in itertools.count())
        return lambda calls: next(costs)

    race = Race(
        "race",
        Contender("peer", twice_as_slow_each_time(2.0)),
        (Contender("ours", twice_as_slow_each_time(1.0)),),
        calls=1,
        rounds=5,
    )
    (finding,) = run(race)
    assert finding.cpu_ratio == Spread(0.5, 0.5, 0.5)


def _race(ours: float, bar: float | None) -> list[Finding]:
    race = Race(
        "race",
        Contender("peer", lambda calls: Cost(cpu=2.0 * calls, wall=1.0)),
        (Contender("ours", lambda calls: Cost(cpu=2.0 * ours * calls, wall=1.0), bar),),
        calls=10,
        rounds=1,
    )
    return list(run(race))


def _quick(*names: str) -> list[dict[str, Any]]:  # Any: JSON
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", *names]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
