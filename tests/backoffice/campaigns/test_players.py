"""Lists of players: each row is read as it is, and each mistake has its line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from game_operator.backoffice import CampaignRefusedError
from game_operator.backoffice.campaigns.players import Asked, Problem, rows_of

HEADER = "player_id,instance_id,count,wager_amount_cents,expire_duration_millis\n"


def _rows(content: str | bytes, folder: Path) -> list[Asked | Problem]:
    file = folder / "players.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(rows_of(file))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("player_id\np1\np2\n", [Asked(2, "p1"), Asked(3, "p2")], id="ids alone"),
        pytest.param("player_id\n\np1\n\n\n", [Asked(3, "p1")], id="empty lines"),
        pytest.param("\ufeffplayer_id\np1\n", [Asked(2, "p1")], id="with a byte order mark, as spreadsheets write"),
        pytest.param(HEADER + "p1,i2,5,100,1000\n", [Asked(2, "p1", "i2", 5, 100, 1000)], id="every column"),
        pytest.param(HEADER + "p1,,,,\n", [Asked(2, "p1")], id="empty cells leave the campaign's own"),
        pytest.param('player_id\n"a,b"\n"say ""x"""\n', [Asked(2, "a,b"), Asked(3, 'say "x"')], id="quoted ids"),
        pytest.param("player_id\n p1\n007\n", [Asked(2, " p1"), Asked(3, "007")], id="nothing is trimmed or read"),
        pytest.param(b"player_id\np\xff1\n", [Asked(2, "p\udcff1")], id="a byte that is not UTF-8 stays visible"),
    ],
)
def test_rows_are_read_as_they_stand(tmp_path: Path, content: str | bytes, expected: list[Asked]) -> None:
    assert _rows(content, tmp_path) == expected


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        pytest.param("", 1, "There is no header", id="an empty file"),
        pytest.param("p1\np2\n", 1, "must name the columns", id="no header"),
        pytest.param("player_id;count\np1;5\n", 1, "Separate columns by commas", id="semicolons"),
        pytest.param("player_id,wager\np1,5\n", 1, "Unknown: 'wager'", id="a column that nobody reads"),
        pytest.param("player_id,player_id\np1,p2\n", 1, "stands twice", id="a column twice"),
        pytest.param(b"\xff\xfep\x00", 1, "It is not UTF-8", id="UTF-16"),
        pytest.param("player_id,count\np1\n", 2, "1 cells, and the first line has 2", id="a row too short"),
        pytest.param("player_id,count\np0,1\np1,5.0\n", 3, "plain digits", id="a number with decimals"),
        pytest.param("player_id,count\np1,٥\n", 2, "plain digits", id="digits of another script"),
        pytest.param("player_id,count\np1," + "9" * 19 + "\n", 2, "plain digits", id="more digits than any number"),
        pytest.param('player_id\np0\n"p1\np2\np3\n', 3, "lone quotation mark", id="quotes that never end"),
        pytest.param("player_id\n" + "x" * 140_000 + "\n", 2, "field limit", id="an endless line"),
    ],
)
def test_problems_have_their_line(tmp_path: Path, content: str | bytes, line: int, problem: str) -> None:
    *_, last = _rows(content, tmp_path)
    assert isinstance(last, Problem)
    assert last.line == line
    assert problem in last.text


def test_a_row_that_is_wrong_does_not_hide_those_behind_it(tmp_path: Path) -> None:
    rows = _rows("player_id,count\np1,x\np2,5\np3\np4,6\n", tmp_path)
    assert [type(row) for row in rows] == [Problem, Asked, Problem, Asked]
    assert [row.line for row in rows] == [2, 3, 4, 5]


@pytest.mark.parametrize("name", ["none.csv", "", "a" * 300])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(CampaignRefusedError, match="cannot be read"):
        list(rows_of(tmp_path / name))


def test_values_of_an_iterable() -> None:
    given: list[Any] = ["p1", {"player_id": "p2", "count": 7, "instance_id": None}]
    assert list(rows_of(given)) == [Asked(1, "p1"), Asked(2, "p2", count=7)]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param(7, "neither a player id", id="a number"),
        pytest.param({"count": 5}, "There is no player_id", id="no id"),
        pytest.param({"player_id": 7}, "player_id must be a text", id="an id that is a number"),
        pytest.param({"player_id": "p", "count": "5"}, "count must be a whole number", id="a number as text"),
        pytest.param({"player_id": "p", "count": True}, "count must be a whole number", id="a bool"),
        pytest.param({"player_id": "p", "wager": 5}, "Unknown: 'wager'", id="an unknown key"),
    ],
)
def test_values_that_are_mistakes(value: object, problem: str) -> None:
    (found,) = rows_of([value])  # type: ignore[list-item]
    assert isinstance(found, Problem)
    assert found.line == 1
    assert problem in found.text


@pytest.mark.parametrize("given", ["players.csv", b"p1", {"p1": {}}, 7, None])
def test_what_is_not_a_list_of_players(given: Any) -> None:
    """A str would be read letter by letter."""
    with pytest.raises(TypeError, match="players must be a Path"):
        rows_of(given)


def test_a_generator_is_read_once_and_lazily() -> None:
    taken: list[int] = []

    def endless() -> Iterator[str]:
        while True:
            taken.append(1)
            yield f"p{len(taken)}"

    rows = rows_of(endless())
    assert [next(rows), next(rows)] == [Asked(1, "p1"), Asked(2, "p2")]
    assert len(taken) == 2
