"""`game-operator games --changes` (spec §2.5 to §2.7, §4.2)."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from game_operator.backoffice.catalogue.state import changes_between
from game_operator.cli.commands.operator_api import what_changed
from game_operator.ledger import SqlLedger
from tests.support.catalogues import games_of, named
from tests.support.command_line import CannedService, Reply, Run, rows, said
from tests.support.wire import JsonObject, bet_config, game, game_instance, hole, wire

pytestmark = pytest.mark.outside

TEN = [named(f"g{number}", f"i{number}") for number in range(10)]


def reply(games: Sequence[JsonObject]) -> Reply:
    return Reply(body=wire({"games": games}))


#: Runs `game-operator games` with options against a service that answers these lists in turn.
Games = Callable[..., Any]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    """The options of each kind of store."""
    url = f"sqlite:///{tmp_path / 'w.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    SqlLedger(url).close()
    return ("--database", url)


@pytest.fixture
def kept(tmp_path: Path) -> tuple[str, ...]:
    """The options of a store."""
    url = f"sqlite:///{tmp_path / 'w.db'}"
    SqlLedger(url).close()
    return ("--database", url)


@pytest.fixture
def asked(run: Run, settings: dict[str, str]) -> Iterator[Callable[..., Any]]:
    """Run the command against a service at one address, whose answers are given before."""
    with CannedService([reply(TEN)]) as service:

        def ask(*options: str, answer: Reply | None = None) -> Any:
            if answer is not None:
                service.answer_with(answer)
            return run("games", "--base-url", service.base_url, *options)

        yield ask


def test_changes_since_the_last_good_list(asked: Games, store: tuple[str, ...]) -> None:
    """The first run has nothing to compare with; the next one reports; then nothing has changed."""
    first = asked("--changes", *store)
    assert (first.code, first.err) == (0, "")
    assert first.out.startswith("This is the first list. From now on, changes are reported.\n")
    assert (said(first.out)["games"], said(first.out)["instances"]) == ("10", "10")
    changed = asked("--changes", *store, answer=reply([named("g0", "i0", status="MAINTENANCE"), *TEN[1:]]))
    assert (changed.code, changed.err) == (0, "")
    assert [row[1:] for row in rows(changed.out)] == [["game_status_changed", "g0", "ACTIVE → MAINTENANCE"]]
    again = asked("--changes", *store)
    assert again.out.startswith("Nothing has changed.\n")


def test_a_held_list_is_a_finding_until_a_person_allows_it(asked: Games, store: tuple[str, ...]) -> None:
    """Exit code 1 with the option that applies it."""
    asked("--changes", *store)
    held = asked("--changes", *store, answer=reply(TEN[:6]))
    assert (held.code, held.err) == (1, "")
    reason = held.out.splitlines()[0]
    assert reason.startswith("Held for a person: 4 of 10 games would be gone, more than 30 %. Nothing")
    assert "--most-gone" in reason
    gone = [["game_gone", f"g{number}", f"G{number}"] for number in range(6, 10)]
    assert [row[1:] for row in rows(held.out)] == gone
    assert asked("--changes", "--most-gone", "0.35", *store).code == 1
    accepted = asked("--changes", "--most-gone", "0.4", *store)
    assert (accepted.code, accepted.err) == (0, "")
    assert [row[1:] for row in rows(accepted.out)] == gone
    assert said(asked("--changes", *store).out)["games"] == "6"


def test_of_a_long_held_list_the_games_that_go_stand_first(asked: Games, kept: tuple[str, ...]) -> None:
    """What a person must decide about is not hidden behind what is new."""
    store = kept
    asked("--changes", *store)
    renamed = [game(id="g0", name="Other", instances=[game_instance(id="i0")])]
    new = [named(f"new{number}", f"n{number}") for number in range(30)]
    kinds = [row[1] for row in rows(asked("--changes", *store, answer=reply([*renamed, *new])).out)]
    assert (kinds[:9], "game_gone" in kinds[9:], len(kinds)) == (["game_gone"] * 9, False, 40)
    asked("--changes", *store)
    detail = rows(asked("--changes", *store, answer=reply([*renamed, *TEN[1:]])).out)
    assert [row[1:] for row in detail] == [["game_details_changed", "g0", "name G0 → Other"]]


def test_json(asked: Games, kept: tuple[str, ...]) -> None:
    """One document: each change with its values, exact, and what is held."""
    store = (*kept, "--json")
    first = asked("--changes", *store)
    millis = first.document["fetched_at_millis"]
    assert first.document == {"changes": [], "games": 10, "instances": 10, "fetched_at_millis": millis, "held": None}
    limits = bet_config(max_win=hole())
    other = game(id="g0", name="G0", instances=[game_instance(id="i0", bet_config=limits)])
    body = wire({"games": [other, *TEN[1:]]}, "1234567890123456.78")
    changed = asked("--changes", *store, answer=Reply(body=body))
    assert '"max_win":1234567890123456.78' in changed.out
    (change,) = changed.document["changes"]
    assert (change["kind"], change["game_id"], change["instance_id"]) == ("limits_changed", "g0", "i0")
    assert change["before"] == bet_config()
    held = asked("--changes", *store, answer=reply([]))
    assert held.code == 1
    assert held.document["held"]["reason"] == "It lists no instance at all."
    assert held.document["games"] == 10
    accepted = asked("--changes", "--most-gone", "1", *store)
    assert [each["kind"] for each in accepted.document["changes"]] == ["game_gone"] * 10
    assert [each | {"at_millis": 0} for each in held.document["held"]["changes"]] == [
        each | {"at_millis": 0} for each in accepted.document["changes"]
    ]


def test_a_service_that_fails_changes_nothing(asked: Games, kept: tuple[str, ...]) -> None:
    """The command fails as every call does, and the store is as it was."""
    asked("--changes", *kept)
    failed = asked("--changes", *kept, answer=Reply(status=401, body=b'{"error": "Authentication failed"}'))
    assert (failed.code, failed.out, "HTTP 401" in failed.err) == (1, "", True)
    assert asked("--changes", *kept, answer=reply(TEN)).out.startswith("Nothing has changed.")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param(("--changes",), "Pass --database URL", id="no store"),
        pytest.param(("--changes", "--genre", "Crash"), "Leave out --genre", id="a filter"),
        pytest.param(("--changes", "--active"), "Leave out --genre", id="another filter"),
        pytest.param(("--most-gone", "0.5"), "need --changes", id="a share alone"),
        pytest.param(("--database", "sqlite:///x"), "need --changes", id="a database alone"),
        pytest.param(("--changes", "--database", "sqlite:////no/x.db"), "no folder '/no'", id="no folder for it"),
    ],
)
def test_what_does_not_go_together(asked: Games, options: tuple[str, ...], told: str) -> None:
    """Is usage, with what to pass; the service is not asked."""
    refused = asked(*options)
    assert (refused.code, refused.out) == (2, "")
    assert told in " ".join(refused.err.split())


def test_the_ledger_is_found_by_the_environment(asked: Games, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the commands of the ledger."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    SqlLedger(url).close()
    monkeypatch.setenv("GAME_OPERATOR_DATABASE_URL", url)
    assert asked("--changes").out.startswith("This is the first list")
    assert asked("--changes").out.startswith("Nothing has changed")
    assert asked().out.startswith("10 of 10 games, 10 instances\n")


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (game(rtp=None), "96.5 → –"),
        (game(status="ASLEEP"), "ACTIVE → ASLEEP"),
        (game(name="Other", tags=["new"]), "name Crash → Other, tags – → new"),
        (game(instances=[]), "Crash EUR"),
        (game(instances=[game_instance(active=False)]), "yes → no"),
        (game(instances=[game_instance(name="Other")]), "name Crash EUR → Other"),
        (
            game(instances=[game_instance(bet_config=bet_config(max_win=1e-7, currency="JPY"))]),
            "currency EUR → JPY, max win 10000 → 0.0000001",
        ),
        (
            game(instances=[game_instance(bet_config=bet_config(tax=1))]),
            "tax – → 1",
        ),
        (
            game(instances=[game_instance(), game_instance(id="i2", active=False)]),
            "Crash EUR",
        ),
    ],
)
def test_each_change_is_one_line(after: JsonObject, told: str) -> None:
    """Amounts in currency units, digit for digit."""
    (change,) = changes_between(games_of(game()), games_of(after), at_millis=0)
    document = change.as_dict()
    assert what_changed(document["before"], document["after"]) == told
