"""`game-operator games`: the catalogue as a table and as JSON (spec §2.5 to §2.7, §4.2)."""

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


def test_all_are_listed(run: Run, settings: dict[str, str]) -> None:
    """In the document and in the table, games without instances too."""
    with CannedService([Reply(body=wire(CATALOGUE))]) as service:
        told = run("games", "--base-url", service.base_url, "--json")
        table = run("games", "--base-url", service.base_url)
    assert (told.code, table.code, table.err) == (0, 0, "")
    assert listed(told.document) == {"one": ["one-eur", "one-usd"], "two": ["two"], "three": [], "four": ["four-eur"]}
    assert table.out.splitlines()[0] == "4 games, 4 instances"


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
    assert (told.code, told.out) == (0, "0 games, 0 instances\n")


def test_against_the_sandbox(run: Run, settings: dict[str, str], sandbox: Sandbox) -> None:
    """Signed by the registered key, over real HTTP (spec §4.2, §5)."""
    document = run("games", "--json").document
    assert len(document["games"]) >= 12
    assert any(sandbox.instance_id in instances for instances in listed(document).values())
