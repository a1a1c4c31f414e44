"""`game-operator games`: the catalogue as a table and as JSON, filtered (spec §2.5 to §2.7, §4.2)."""

from typing import Any

import pytest

from game_operator_testkit.sandbox import Sandbox
from tests.support.command_line import CannedService, Reply, Run
from tests.support.wire import bet_config, game, game_instance, hole, wire

pytestmark = pytest.mark.outside

CATALOGUE = {
    "games": [
        game(
            id="one",
            name="One",
            genre="Crash",
            instances=[
                game_instance(id="one-eur"),
                game_instance(id="one-usd", active=False, bet_config=bet_config(currency="USD")),
            ],
        ),
        game(
            id="two", name="Two", genre="Slots", status="MAINTENANCE", instances=[game_instance(id="two", active=False)]
        ),
        game(id="three", name="Three", genre="Crash", status="COMING_SOON", rtp=None, instances=[]),
        game(id="four", name="Four", genre="Telepathy", status="ASLEEP", instances=[game_instance(id="four-eur")]),
    ]
}


def listed(document: dict[str, Any]) -> dict[str, list[str]]:
    """Return the instance ids of each game in *document*."""
    return {each["id"]: [instance["id"] for instance in each["instances"]] for each in document["games"]}


ALL = {"one": ["one-eur", "one-usd"], "two": ["two"], "three": [], "four": ["four-eur"]}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        pytest.param((), ALL, id="all"),
        pytest.param(("--genre", "Crash"), {"one": ALL["one"], "three": []}, id="genre"),
        pytest.param(("--genre", "cRASH"), {"one": ALL["one"], "three": []}, id="genre in any case"),
        pytest.param(("--genre", "Telepathy"), {"four": ["four-eur"]}, id="a genre of tomorrow"),
        pytest.param(("--genre", "Bingo"), {}, id="a genre without games"),
        pytest.param(("--status", "active"), {"one": ALL["one"]}, id="status"),
        pytest.param(("--currency", "usd"), {"one": ["one-usd"]}, id="currency"),
        pytest.param(("--active",), {"one": ["one-eur"], "four": ["four-eur"]}, id="active instances"),
        pytest.param(("--active", "--currency", "USD"), {}, id="active and currency"),
        pytest.param(("--genre", "Crash", "--status", "COMING_SOON"), {"three": []}, id="genre and status"),
    ],
)
def test_filters(run: Run, settings: dict[str, str], filters: tuple[str, ...], expected: dict[str, list[str]]) -> None:
    """Each filter keeps what it names, and a game whose instances all go goes too; the table shows the same."""
    with CannedService([Reply(body=wire(CATALOGUE))]) as service:
        told = run("games", "--base-url", service.base_url, *filters, "--json")
        table = run("games", "--base-url", service.base_url, *filters)
    assert (told.code, table.code, table.err) == (0, 0, "")
    assert listed(told.document) == expected
    counted = sum(map(len, expected.values()))
    assert table.out.splitlines()[0] == f"{len(expected)} of 4 games, {counted} instances"
    for name, instances in ALL.items():
        assert (f"│ {name.title()} " in table.out) == (name in expected)
        for instance in instances:
            assert (f"│ {instance} " in table.out) == (instance in expected.get(name, []))


def test_the_table_shows_what_a_person_asks_for(run: Run, settings: dict[str, str]) -> None:
    """Game, genre, status, RTP, instance, whether it is active, and the limits in currency units (spec §2.7)."""
    with CannedService([Reply(body=wire(CATALOGUE))]) as service:
        lines = run("games", "--base-url", service.base_url).out.splitlines()
    rows = [[each.strip() for each in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    assert rows == [
        ["One", "Crash", "ACTIVE", "96.5", "one-eur", "yes", "0.1", "100", "10000", "EUR"],
        ["One", "Crash", "ACTIVE", "96.5", "one-usd", "no", "0.1", "100", "10000", "USD"],
        ["Two", "Slots", "MAINTENANCE", "96.5", "two", "no", "0.1", "100", "10000", "EUR"],
        ["Three", "Crash", "COMING_SOON", "–", "–", "–", "–", "–", "–", "–"],
        ["Four", "Telepathy", "ASLEEP", "96.5", "four-eur", "yes", "0.1", "100", "10000", "EUR"],
    ]


def test_a_genre_that_no_game_has_is_told_with_those_there_are(run: Run, settings: dict[str, str]) -> None:
    """A typing error is no empty catalogue; a genre without matching instances is none."""
    with CannedService([Reply(body=wire(CATALOGUE))]) as service:
        told = run("games", "--base-url", service.base_url, "--genre", "Nope")
        other = run("games", "--base-url", service.base_url, "--genre", "crash", "--currency", "XXX")
    assert told.code == 0
    assert told.out == "0 of 4 games, 0 instances\nNo game has genre Nope. There are Crash, Slots, Telepathy.\n"
    assert other.out == "0 of 4 games, 0 instances\n"


def test_amounts_are_exact(run: Run, settings: dict[str, str]) -> None:
    """18 digits of a limit survive, in text and in JSON (spec §2.7)."""
    limits = bet_config(max_win=hole())
    body = wire({"games": [game(instances=[game_instance(bet_config=limits)])]}, "1234567890123456.78")
    with CannedService([Reply(body=body)]) as service:
        assert "1234567890123456.78 │ EUR" in run("games", "--base-url", service.base_url).out
        assert '"max_win":1234567890123456.78' in run("games", "--base-url", service.base_url, "--json").out


def test_unknown_fields_are_in_the_document(run: Run, settings: dict[str, str]) -> None:
    """What the service adds one day reaches programs, whatever it is."""
    added = {"volatility": 1.5, "tiny": 1e-300, "tags": ["new", None, True]}
    with CannedService([Reply(body=wire({"games": [game(**added)]}))]) as service:
        document = run("games", "--base-url", service.base_url, "--json").document
    assert document["games"][0].items() >= added.items()


def test_no_games_are_no_failure(run: Run, settings: dict[str, str]) -> None:
    with CannedService([Reply(body=b'{"games":[]}')]) as service:
        told = run("games", "--base-url", service.base_url)
        assert run("games", "--base-url", service.base_url, "--json").document == {"games": []}
    assert (told.code, told.out) == (0, "0 of 0 games, 0 instances\n")


def test_against_the_sandbox(run: Run, settings: dict[str, str], sandbox: Sandbox) -> None:
    """Signed by the registered key, over real HTTP (spec §4.2, §5)."""
    document = run("games", "--json").document
    assert len(document["games"]) >= 12
    assert any(sandbox.instance_id in instances for instances in listed(document).values())
