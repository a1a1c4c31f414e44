"""
The players of a campaign as they are given: a CSV file, or any iterable of ids and mappings.

Everything is read, and every problem has its line: a file with mistakes is fixed once and not once for each mistake.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TextIO, TypeAlias

from game_operator.errors import CampaignRefusedError, shown

#: What ``Campaign.plan`` takes: a CSV file, or ids and mappings whose keys are the columns of such a file.
Players: TypeAlias = Path | Iterable[str | Mapping[str, object]]

PLAYER_ID: Final = "player_id"
_TEXTS: Final = (PLAYER_ID, "instance_id")
COLUMNS: Final = (*_TEXTS, "count", "wager_amount_cents", "expire_duration_millis")
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)


class Problem(NamedTuple):
    """
    What is wrong with a row of the players.

    Attributes:
        line: The line of the file at which the row begins, from 1; of an iterable, which of its values it is.
        text: What is wrong, and with which value.
    """

    line: int
    text: str


class Asked(NamedTuple):
    """A row as it was given; None where the campaign's own value is meant."""

    line: int
    player_id: str
    instance_id: str | None = None
    count: int | None = None  # type: ignore[assignment]  # The spec's name; tuple.count is of no use here.
    wager_amount_cents: int | None = None
    expire_duration_millis: int | None = None


def rows_of(players: Players) -> Iterator[Asked | Problem]:
    """Yield the rows of *players*, each of them or what is wrong with it."""
    if isinstance(players, Path):
        return _rows_of_file(players)
    if isinstance(players, str | bytes | Mapping) or not isinstance(players, Iterable):
        raise TypeError(
            f"players must be a Path to a CSV file, or an iterable of player ids and mappings, not "
            f"{type(players).__name__}. For a file whose name is a str, pass Path(name)."
        )
    return (_row_of_value(line, value) for line, value in enumerate(players, 1))


def _row_of_value(line: int, value: object) -> Asked | Problem:
    if isinstance(value, str):
        return Asked(line, value)
    if not isinstance(value, Mapping):
        return Problem(line, f"{shown(value)} is neither a player id, which is a str, nor a mapping.")
    given = {name: each for name, each in value.items() if each is not None}
    if unknown := [name for name in given if name not in COLUMNS]:
        return Problem(line, _unknown(unknown))
    if PLAYER_ID not in given:
        return Problem(line, f"There is no {PLAYER_ID}.")
    for name, each in given.items():
        expected, words = (str, "a text") if name in _TEXTS else (int, "a whole number in plain digits")
        if not isinstance(each, expected) or isinstance(each, bool):
            return Problem(line, f"{name} must be {words}, and it is {type(each).__name__} {shown(each)}.")
    return Asked(line, **given)


def _unknown(names: Iterable[object]) -> str:
    """Return that there are columns nobody reads: a misspelled one would change no grant."""
    listed = ", ".join(map(shown, names))
    return f"Unknown: {listed}. A row has {PLAYER_ID}, and may have {', '.join(COLUMNS[1:])}. Remove the others."


def _rows_of_file(path: Path) -> Iterator[Asked | Problem]:
    try:
        # A byte that is not UTF-8 becomes half of a surrogate pair, and the row that holds it is refused for it.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
            yield from _rows_of_text(text)
    except (OSError, ValueError) as failed:  # A name with U+0000 is a ValueError.
        reason = failed.strerror if isinstance(failed, OSError) else str(failed)
        raise CampaignRefusedError(f"{shown(str(path))} cannot be read: {reason}.") from None


def _rows_of_text(text: TextIO) -> Iterator[Asked | Problem]:
    """Yield the rows of a CSV file; where its quotes or lines are broken, what follows cannot be read."""
    reader = csv.reader(text, strict=True)
    begins = 1
    names: list[str] | None = None
    try:
        for cells in reader:
            line, begins = begins, reader.line_num + 1
            if not cells:  # An empty line.
                continue
            if names is not None:
                yield _row_of_cells(line, names, cells)
                continue
            names = cells
            if problem := _problem_of_header(names):
                yield Problem(line, problem)
                return
    except csv.Error as broken:
        yield Problem(
            begins, f"The row cannot be read ({broken}), nor what follows it. Look for a lone quotation mark."
        )
    if names is None:
        yield Problem(1, f"There is no header: the first line names the columns, such as {PLAYER_ID}.")


def _problem_of_header(names: list[str]) -> str:
    if PLAYER_ID not in names:
        advice = " Separate columns by commas." if ";" in names[0] or "\t" in names[0] else ""
        if any("\udc80" <= each <= "\udcff" for name in names for each in name):
            advice = " It is not UTF-8. Save the file as CSV in UTF-8."
        return (
            f"The first line must name the columns, {PLAYER_ID} among them, and it is {shown(','.join(names))}.{advice}"
        )
    if unknown := [name for name in names if name not in COLUMNS]:
        return _unknown(unknown)
    twice = [name for name in COLUMNS if names.count(name) > 1]
    return f"{twice[0]} stands twice in the first line." if twice else ""


def _row_of_cells(line: int, names: list[str], cells: list[str]) -> Asked | Problem:
    if len(cells) != len(names):
        return Problem(line, f"The row has {len(cells)} cells, and the first line has {len(names)}.")
    given: dict[str, object] = {}
    for name, cell in zip(names, cells, strict=True):
        if cell or name == PLAYER_ID:  # An empty cell leaves the campaign's own value.
            given[name] = int(cell) if name not in _TEXTS and _WHOLE.fullmatch(cell) else cell
    return _row_of_value(line, given)
