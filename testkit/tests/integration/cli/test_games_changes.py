"""`game-operator games --changes` and `--watch` (spec §2.5 to §2.7, §4.2)."""

import json
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from game_operator.backoffice.catalogue.changes import changes_between
from game_operator.cli.reports.catalogue import sentence
from game_operator.ledger import SqlLedger
from tests.support.catalogues import games_of, named
from tests.support.command_line import CannedService, Reply, Run, started, stopped
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
    assert first.out == "This is the first list: 10 games, 10 instances. From now on, changes are reported.\n"
    changed = asked("--changes", *store, answer=reply([named("g0", "i0", status="MAINTENANCE"), *TEN[1:]]))
    assert (changed.code, changed.err) == (0, "")
    assert changed.out.endswith("  status of g0: ACTIVE → MAINTENANCE\n")
    again = asked("--changes", *store)
    assert again.out == "Nothing has changed: 10 games, 10 instances.\n"


def test_a_held_list_is_a_finding_until_a_person_allows_it(asked: Games, store: tuple[str, ...]) -> None:
    """Exit code 1 with the option that applies it."""
    asked("--changes", *store)
    held = asked("--changes", *store, answer=reply(TEN[:6]))
    assert (held.code, held.err) == (1, "")
    reason, *would_be, advice = held.out.splitlines()
    assert reason.startswith("Held for a person: 4 of 10 games would be gone, more than 30 %. Nothing")
    gone = [f"game g{number} gone: G{number}, with i{number}" for number in range(6, 10)]
    assert would_be == [f"  would be: {each}" for each in gone]
    assert "--most-gone SHARE" in advice
    assert asked("--changes", "--most-gone", "0.35", *store).code == 1
    accepted = asked("--changes", "--most-gone", "0.4", *store)
    assert (accepted.code, accepted.err) == (0, "")
    assert [line.split("  ")[1] for line in accepted.out.splitlines()] == gone
    assert asked("--changes", *store).out == "Nothing has changed: 6 games, 6 instances.\n"


def test_of_a_long_held_list_the_games_that_go_stand_first(asked: Games, kept: tuple[str, ...]) -> None:
    """What a person must decide about is not hidden behind what is new, and the rest is counted."""
    store = kept
    asked("--changes", *store)
    renamed = [game(id="g0", name="Other", instances=[game_instance(id="i0")])]
    new = [named(f"new{number}", f"n{number}") for number in range(30)]
    lines = asked("--changes", *store, answer=reply([*renamed, *new])).out.splitlines()
    assert [line for line in lines if " gone: " in line] == lines[1:10]
    assert len(lines) == 1 + 20 + 2
    assert lines[-2] == "  and 20 more changes: --json lists all"
    asked("--changes", *store)
    detail = asked("--changes", *store, answer=reply([*renamed, *TEN[1:]])).out
    assert detail.endswith("  details of game g0: name G0 → Other\n")


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
    assert [each["kind"] for each in held.document["held"]["changes"]] == ["game_gone"] * 10
    assert held.document["games"] == 10
    accepted = asked("--changes", "--most-gone", "1", *store)
    assert [each["kind"] for each in accepted.document["changes"]] == ["game_gone"] * 10


def test_a_service_that_fails_changes_nothing(asked: Games, kept: tuple[str, ...]) -> None:
    """The command fails as every call does, and the store is as it was."""
    asked("--changes", *kept)
    failed = asked("--changes", *kept, answer=Reply(status=401, body=b'{"error": "Authentication failed"}'))
    assert (failed.code, failed.out, "HTTP 401" in failed.err) == (1, "", True)
    assert asked("--changes", *kept, answer=reply(TEN)).out.startswith("Nothing has changed")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param(("--changes",), "Pass the ledger's database", id="no store"),
        pytest.param(("--changes", "--watch"), "exclude each other", id="two of them"),
        pytest.param(("--changes", "--genre", "Crash"), "Leave out --genre", id="a filter"),
        pytest.param(("--watch", "--active"), "Leave out --genre", id="another filter"),
        pytest.param(("--database", "sqlite:///x"), "--database needs --changes or --watch", id="a database alone"),
        pytest.param(("--watch", "--most-gone", "1"), "--most-gone needs --changes", id="a share for a watch"),
        pytest.param(("30",), "SECONDS needs --watch", id="seconds alone"),
        pytest.param(("--watch", "0.5"), "SECONDS': The smallest value is 1.", id="too often"),
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
    assert asked().out.endswith("10 of 10 games, 10 instances\n")


@contextmanager
def watching(service: CannedService, settings: dict[str, str], *options: str) -> Iterator[Any]:
    """Start a watch in a separate process."""
    environ = settings | {"GAME_OPERATOR_BASE_URL": service.base_url}
    with started("games", "--watch", "1", *options, **environ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.drawn(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_watch_reports_until_it_is_stopped(settings: dict[str, str], kept: tuple[str, ...], number: int) -> None:
    """Each change as it comes, a failure without an end, a held list once; and it stops without a word of trouble."""
    more = reply([*TEN, named("new", "n1")])
    lists = [reply(TEN), Reply(status=500, body=b"{}"), more, reply([]), reply([]), more]
    answers = [lists[0], *[lists[1]] * 3, *lists[2:]]  # A client repeats a call that the service answers with 500.
    with (
        CannedService(answers) as service,
        watching(service, settings, *kept, "--deadline", "60") as process,
    ):
        lines = [process.stdout.readline() for _ in range(3)]
        would_be = [process.stdout.readline() for _ in range(11)]
        lines.append(process.stdout.readline())
        ended = stopped(process, number)
    assert lines[0] == "Watching 10 games, 10 instances, every 1 s, until Ctrl-C.\n"
    assert lines[1].endswith("  game new added: New, ACTIVE, with n1\n")
    assert lines[2].startswith("Held for a person: It lists no instance at all.")
    assert all(line.startswith("  would be: game ") for line in would_be)
    assert lines[3].startswith("If that is right, allow that share")
    assert (ended.code, "Held" in ended.out) == (0, False)
    errors = ended.err.splitlines()
    assert errors[-1] == "The watch has ended."
    assert all(line.startswith("The games could not be fetched: The service answered HTTP 500") for line in errors[:-1])
    assert len(errors) == 2


def test_a_watch_for_programs_writes_a_document_for_each_look_that_found_something(settings: dict[str, str]) -> None:
    """A line each; the first one always; and nothing on stderr. It needs no store."""
    answers = [reply(TEN), reply(TEN), reply(TEN[:9])]
    with CannedService(answers) as service, watching(service, settings, "--json") as process:
        documents = [json.loads(process.stdout.readline()) for _ in range(2)]
        ended = stopped(process, signal.SIGINT)
    assert [[each["kind"] for each in document["changes"]] for document in documents] == [[], ["game_gone"]]
    assert [document["games"] for document in documents] == [10, 9]
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_ctrl_c_ends_a_watch_that_waits_for_an_answer(settings: dict[str, str]) -> None:
    """At once, and not at the deadline."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ = settings | {"GAME_OPERATOR_BASE_URL": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        with started("games", "--watch", "--deadline", "600", **environ) as process:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1)
                ended = stopped(process, signal.SIGINT)
    assert (ended.code, ended.out, ended.err) == (0, "", "The watch has ended.\n")


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (game(rtp=None), "RTP of crash: 96.5 → none"),
        (game(status="ASLEEP"), "status of crash: ACTIVE → ASLEEP"),
        (game(name="Other", tags=[]), "details of game crash: name Crash → Other, tags none → []"),
        (game(instances=[]), "instance instance-1 of crash gone"),
        (game(instances=[game_instance(active=False)]), "instance instance-1 of crash switched off"),
        (
            game(instances=[game_instance(name="Other")]),
            "details of instance instance-1 of crash: name Crash EUR → Other",
        ),
        (
            game(instances=[game_instance(bet_config=bet_config(max_win=1e-7, currency="JPY"))]),
            "limits of instance-1 of crash: max win 10000 → 0.0000001, currency EUR → JPY",
        ),
        (
            game(instances=[game_instance(bet_config=bet_config(tax=1))]),
            "limits of instance-1 of crash: a field that this version does not know",
        ),
        (
            game(instances=[game_instance(), game_instance(id="i2", active=False)]),
            "instance i2 of crash added: 0.1 to 100 EUR, off",
        ),
    ],
)
def test_each_change_is_a_sentence(after: JsonObject, told: str) -> None:
    """Amounts in currency units, digit for digit."""
    (change,) = changes_between(games_of(game()), games_of(after), at_millis=0)
    assert sentence(change) == told
