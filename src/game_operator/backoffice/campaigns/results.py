"""What became of each grant, as values and as files."""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from game_operator.backoffice.campaigns.answers import GrantState
from game_operator.backoffice.campaigns.grants import grant_in, reference_id_of
from game_operator.backoffice.csv_text import csv_lines
from game_operator.backoffice.journal.records import Item
from game_operator.errors import ConfigurationError, shown


class GrantResult(NamedTuple):
    """
    What became of one grant.

    Attributes:
        player_id, instance_id, count, wager_amount_cents, expire_duration_millis: The grant.
        reference_id: What it is called at the service.
        state: Where it stands.
        free_bet_id: The service's id of it; None also if the answer that had it was lost.
        error_code: Why it was refused, or None.
        message: What was last said of it, or None.
        attempts: How often it was asked for.
        at_millis: When that was, last.
    """

    player_id: str
    instance_id: str
    count: int  # type: ignore[assignment]  # The spec's name; tuple.count is of no use here.
    wager_amount_cents: int
    expire_duration_millis: int
    reference_id: str
    state: GrantState
    free_bet_id: str | None
    error_code: str | None
    message: str | None
    attempts: int
    at_millis: int | None


def result_of(campaign: str, item: Item) -> GrantResult:
    """Return what became of the grant of an item."""
    values = item.values
    grant = grant_in(item)
    return GrantResult(
        *grant,
        reference_id=reference_id_of(campaign, grant.player_id),
        state=GrantState(item.state or GrantState.PLANNED),
        free_bet_id=values.get("free_bet_id"),
        error_code=values.get("error_code"),
        message=values.get("message"),
        attempts=item.attempts,
        at_millis=item.at_millis,
    )


def _as_csv(results: Iterable[GrantResult]) -> Iterator[str]:
    yield from csv_lines([GrantResult._fields])
    yield from csv_lines(results)


def _as_json_lines(results: Iterable[GrantResult]) -> Iterator[str]:
    return (json.dumps(result._asdict()) + "\n" for result in results)


_WRITERS: Final = {".csv": _as_csv, ".jsonl": _as_json_lines}


def write_results(path: Path, results: Iterable[GrantResult]) -> None:
    """
    Write *results* to *path*, as CSV or as JSON Lines by its suffix; only its owner may read it.

    No cell of the CSV is a formula to a spreadsheet: a text that would be has an apostrophe in front.

    Raises:
        ConfigurationError: The suffix is neither ``.csv`` nor ``.jsonl``, or the file cannot be written.
    """
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ConfigurationError(f"{shown(str(path))} must end in .csv or .jsonl: that says how results are written.")
    try:
        _write(path, writer(results))
    except OSError as failed:
        raise ConfigurationError(f"{shown(str(path))} cannot be written: {failed.strerror}.") from None


def _write(path: Path, lines: Iterable[str]) -> None:
    """Write *lines* beside *path* and move them there, so that a reader never sees half of them."""
    handle, name = tempfile.mkstemp(prefix=".game-operator-", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.writelines(lines)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
