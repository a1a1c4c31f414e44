"""What is printed is literal and exact: nothing from the service styles a table or commands a terminal."""

import json
from decimal import Decimal

import pytest

from game_operator.cli.output import (
    answer,
    answering,
    remark,
    say,
    show_details,
    show_rows,
    visible,
    write_document,
)
from tests.support.command_line import CannedService, Reply, Run
from tests.support.wire import bet, bet_config, game, game_instance, granted, hole, round_of, wire

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


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(Decimal("0.10"), "0.10", id="an amount, digit for digit"),
        pytest.param(Decimal("1234567890123456.78"), "1234567890123456.78", id="18 digits, no double"),
        pytest.param(Decimal("1E+300"), "1E+300", id="a size that nobody writes out"),
        pytest.param(
            ["é", "\x7f", "\x9b", "\u2028", "😀"], r'["\u00e9","\u007f","\u009b","\u2028","\ud83d\ude00"]', id="ASCII"
        ),
        pytest.param({"a": (1, True, None, 0.5)}, '{"a":[1,true,null,0.5]}', id="nested"),
    ],
)
def test_a_document_is_one_line_of_exact_ascii(
    capsys: pytest.CaptureFixture[str], value: object, expected: str
) -> None:
    write_document({"value": value})
    out = capsys.readouterr().out
    assert out == f'{{"value":{expected}}}\n'
    json.loads(out)


@pytest.mark.parametrize(
    ("as_json", "out", "err"),
    [
        pytest.param(False, "the answer\nmore\na  1\nT", "a remark\nan error\n", id="people"),
        pytest.param(True, '{"a":1}\n', "an error\n", id="a program gets the document, and errors on stderr"),
    ],
)
def test_what_is_said_to_people_and_to_a_program(
    capsys: pytest.CaptureFixture[str], as_json: bool, out: str, err: str
) -> None:
    """With ``--json`` stdout holds exactly one document, whatever else a command says."""
    with answering(as_json=as_json):
        answer({"a": 1}, "the answer")
        say("more")
        show_details([("a", 1)])
        show_rows("T", ("Name",), [("x",)], numbers=())
        remark("a remark")
        say("an error", error=True)
    told = capsys.readouterr()
    assert told.err == err
    assert told.out == out if as_json else told.out.startswith(out)
    say("afterwards")
    assert capsys.readouterr().out == "afterwards\n"


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


@pytest.mark.parametrize("columns", [20, 60, 80, 100, 160])
def test_no_terminal_is_so_narrow_that_a_limit_is_cut(
    run: Run, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """A limit that lost its last digits looks like another one, and an id of use in no command (spec §2.7)."""
    monkeypatch.setenv("COLUMNS", str(columns))
    ids = ("0123456789abcdef01234567", "76543210fedcba9876543210")
    instances = [game_instance(id=each, bet_config=bet_config(max_win=hole())) for each in ids]
    body = wire({"games": [game(name="A game with a long name", instances=instances)]}, "123456789012.34")
    with CannedService([Reply(body=body)]) as service:
        told = run("games", "--base-url", service.base_url)
    assert "…" not in told.out
    assert all(told.out.count(each) == 1 for each in ids)
    assert told.out.count("123456789012.34") == 2
    assert told.out.count("A game with a long name") == 2
    assert ("│" in told.out) == (columns == 160)
