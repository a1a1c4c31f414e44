"""What is printed is literal and exact: nothing from the service styles a table or commands a terminal."""

import pytest

from game_operator.cli.output import (
    visible,
)
from tests.support.command_line import CannedService, Reply, Run
from tests.support.wire import bet, bet_config, game, game_instance, granted, round_of, wire

pytestmark = pytest.mark.outside

#: Each could do harm: markup, a link, an emoji code, a terminal's commands, a line of its own, reversed reading.
HOSTILE = "[red]x[/red] [link=http://evil]y :smile: \x1b[31mz\x1b]0;t\x07 \x9b2J\r\n\x7f‮txt"
HARMLESS = r"[red]x[/red] [link=http://evil]y :smile: \x1b[31mz\x1b]0;t\x07 \x9b2J\r\n\x7f\u202etxt"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Comet Crash", "Comet Crash", id="plain"),
        pytest.param("日本 é ☂ 😀", "日本 é ☂ 😀", id="letters of any script"),
        pytest.param("\x1b[2J", r"\x1b[2J", id="a terminal's command"),
        pytest.param("a\nb\tc\rd\x00e\x7f", r"a\nb\tc\rd\x00e\x7f", id="control characters"),
        pytest.param("\u202e\u2066\u200b\ufeff", r"\u202e\u2066\u200b\ufeff", id="reversed reading, no width"),
        pytest.param("\udcff", r"\udcff", id="a lone surrogate"),
        pytest.param("[red]x", "[red]x", id="markup is left to whoever prints"),
    ],
)
def test_what_does_not_print_is_shown_as_its_escape(text: str, expected: str) -> None:
    assert visible(text) == expected


HOSTILE_GAME = game(
    name=HOSTILE,
    genre=HOSTILE,
    status=HOSTILE,
    instances=[game_instance(id=HOSTILE, bet_config=bet_config(currency=HOSTILE))],
    surprise={HOSTILE: HOSTILE},
)
HOSTILE_BET = dict.fromkeys(("reference_id", "player_id", "round_id", "instance_id", "game"), HOSTILE)
GRANT = ("grant", "--instance=i", "--player=p", "--count=1", "--wager-cents=1", "--expire-millis=1", "--reference=r")


@pytest.mark.parametrize(
    ("args", "status", "body"),
    [
        pytest.param(("games",), 200, {"games": [HOSTILE_GAME]}, id="games"),
        pytest.param(("bet", "b"), 200, bet("CLOSED", **HOSTILE_BET), id="bet"),
        pytest.param(
            ("round", "--instance=i", "--no=1"),
            200,
            round_of(bet(**HOSTILE_BET), round_id=HOSTILE, game=HOSTILE, instance_id=HOSTILE),
            id="round",
        ),
        pytest.param(GRANT, 200, granted(free_bet_id=HOSTILE, message=HOSTILE), id="grant"),
        pytest.param(GRANT, 400, {"success": False, "message": HOSTILE, "error_code": HOSTILE}, id="refused grant"),
        pytest.param(("doctor",), 401, {"error": HOSTILE}, id="doctor"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_values_of_the_service_are_shown_literally(
    run: Run,
    settings: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    status: int,
    body: object,
    as_json: bool,
) -> None:
    """A game called "[red]x", or worse, is shown as it is called, on a terminal with colours too."""
    monkeypatch.setenv("COLUMNS", "2000")
    if not as_json:
        monkeypatch.setenv("FORCE_COLOR", "1")
    with CannedService([Reply(status, wire(body))]) as service:
        told = run(*args, "--base-url", service.base_url, *(["--json"] if as_json else []))
    if as_json:
        assert told.out.isascii()
        assert told.out.rstrip("\n").isprintable()
        assert isinstance(told.document, dict)
        return
    shown = told.out + told.err
    assert "\x1b[31mz" not in shown
    assert not {"\x9b", "\x07", "\x7f", "\u202e"} & set(shown)
    # An error shows the service's words as repr would, which ours are written like.
    assert HARMLESS.partition(" :smile:")[0] in shown
    assert r":smile: \x1b[31mz\x1b]0;t\x07 \x9b2J\r\n\x7f\u202etxt" in shown
