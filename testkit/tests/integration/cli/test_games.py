"""`game-operator games`: the catalogue as a table and as JSON (spec §2.5 to §2.7, §4.2)."""

from typing import Any

import pytest

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


def test_amounts_are_exact(run: Run, settings: dict[str, str]) -> None:
    """18 digits of a limit survive, in text and in JSON (spec §2.7)."""
    limits = bet_config(max_win=hole())
    body = wire({"games": [game(instances=[game_instance(bet_config=limits)])]}, "1234567890123456.78")
    with CannedService([Reply(body=body)]) as service:
        assert "1234567890123456.78 │ EUR" in run("games", "--base-url", service.base_url).out
        assert '"max_win":1234567890123456.78' in run("games", "--base-url", service.base_url, "--json").out
