"""``game-operator ledger anomalies``, ``retry`` and ``resolve``: what somebody should look at."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from game_operator.cli.database import LedgerOptions
from game_operator.cli.errors import ExitCode, error_text
from game_operator.cli.options import OnlySource, check_between, comma_separated, moment_in, read_profile
from game_operator.cli.output import answer, say, wants_json
from game_operator.cli.reports.ledger import MORE, anomaly_document, show_anomalies
from game_operator.errors import ConfigurationError, LedgerError, RetryRefusedError, UnknownSourceError, shown

if TYPE_CHECKING:
    from game_operator.ledger import Outcome, SqlLedger


def _anomaly_id(text: str | int) -> int:
    if not re.fullmatch("[0-9]{1,30}", str(text)):
        raise typer.BadParameter(f"{text!r} is not an anomaly's number: `game-operator ledger anomalies` lists them.")
    return int(text)


@dataclass(frozen=True, kw_only=True)
class AnomalyFilters:
    """
    Which anomalies to list.

    Raises:
        BadParameter: No time is between --since and --until, or a text is not UTF-8.
    """

    source: OnlySource = None
    kind: Annotated[list[str] | None, typer.Option(callback=comma_separated)] = None
    since_millis: Annotated[int | None, typer.Option("--since", parser=moment_in, metavar="TIME")] = None
    until_millis: Annotated[int | None, typer.Option("--until", parser=moment_in, metavar="TIME")] = None
    player_id: Annotated[str | None, typer.Option("--player", "--player-id")] = None
    id_prefix: str | None = None

    def __post_init__(self) -> None:
        check_between(self.since_millis, self.until_millis)
        for text in (self.player_id, self.id_prefix, *(self.kind or ())):
            if text is not None and any("\ud800" <= letter <= "\udfff" for letter in text):
                raise typer.BadParameter(f"{shown(text)} is not valid UTF-8, so no anomaly can match it.")

    @property
    def wanted(self) -> Mapping[str, Any]:
        """The options that were given, as arguments of ``anomalies``."""
        given = {option.name: getattr(self, option.name) for option in fields(AnomalyFilters)}
        return {name: value for name, value in given.items() if value not in (None, [])}

    def check_kinds(self, ledger: "SqlLedger") -> None:
        """Raise BadParameter for an unknown kind: it is a typing mistake, and would look as if nothing waited."""
        from game_operator.ledger.staff.anomalies import KINDS

        for kind in self.wanted.get("kind", ()):
            # A program may keep kinds of its choice.
            if kind not in KINDS and next(iter(ledger.anomalies(kind=kind, resolved=None)), None) is None:
                raise typer.BadParameter(
                    f"There is no kind {shown(kind)} of anomaly. The kinds are {', '.join(sorted(KINDS))}."
                )

    def nothing_found(self, ledger: "SqlLedger", *, resolved: bool | None = False) -> str:
        """Return what to say where nothing matches: how many anomalies there are without these options."""
        others = sum(1 for _ in ledger.anomalies(resolved=resolved)) if self.wanted else 0
        if others:
            return f"No anomaly matches. Without these options {'1 does' if others == 1 else f'{others} do'}."
        return "There are no anomalies." if resolved is None else "There is nothing to look at."


@dataclass(frozen=True, kw_only=True)
class ChosenAnomalies(AnomalyFilters):
    """
    The anomalies to work on: by their numbers, or all that match.

    Raises:
        BadParameter: The command line has both, neither, or what only goes with the other.
    """

    anomaly_ids: Annotated[list[int] | None, typer.Argument(parser=_anomaly_id)] = None
    all_matching: bool = False
    expect: Annotated[int | None, typer.Option(min=0)] = None
    yes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.anomaly_ids) == self.all_matching:
            raise typer.BadParameter("Name anomalies by their IDs, or pass --all-matching: one of the two.")
        if not self.all_matching and (self.wanted or self.expect is not None or self.yes):
            raise typer.BadParameter("Options that choose anomalies go with --all-matching. Pass it, or the IDs alone.")

    @property
    def one(self) -> int | None:
        """The number that stands alone on the command line, or None."""
        return self.anomaly_ids[0] if self.anomaly_ids and len(self.anomaly_ids) == 1 else None

    def ids(self, ledger: "SqlLedger", doing: str) -> list[int]:
        """
        Return their numbers; those that match are counted first, and somebody must agree.

        Raises:
            ConfigurationError: There are not as many as expected, or it was not confirmed. Nothing was done.
        """
        if not self.all_matching:
            return list(dict.fromkeys(self.anomaly_ids or ()))
        self.check_kinds(ledger)
        found = [record.id for record in ledger.anomalies(**self.wanted)]
        count = len(found)
        if self.expect not in (None, count):
            raise ConfigurationError(
                f"{count} anomalies match, and {self.expect} were expected. Nothing was done: look at them with "
                "`game-operator ledger anomalies` and the same options."
            )
        if self.expect is None and not self.yes and count:
            if wants_json() or not sys.stdin.isatty():
                raise ConfigurationError(
                    f"{count} anomalies match. Nothing was done: pass --expect {count} if these are meant, or --yes "
                    "for however many there are."
                )
            if not typer.confirm(f"{doing} {count} anomalies?", err=True):
                raise ConfigurationError("Nothing was done.")
        return found


def anomalies(
    *,
    filters: AnomalyFilters,
    every: Annotated[bool, typer.Option("--all")] = False,
    limit: Annotated[int | None, typer.Option(min=1)] = None,
    bodies: bool = False,
    place: LedgerOptions,
) -> None:
    """List calls that a person should check: refused deposits and rollbacks, conflicts, calls that cannot be read."""
    resolved = None if every else False
    with place.opened() as ledger:
        filters.check_kinds(ledger)
        found = list(islice(ledger.anomalies(resolved=resolved, **filters.wanted), limit and limit + 1))
        if not found and not wants_json():  # It counts all the others.
            say(filters.nothing_found(ledger, resolved=resolved))
    records, more = found[:limit], limit is not None and len(found) > limit
    document = {"anomalies": list(map(anomaly_document, records))}
    answer(document if limit is None else document | {"more": more})
    show_anomalies(records, every=every, bodies=bodies)
    if more:
        say(MORE.format(limit))


def retry(
    *,
    chosen: ChosenAnomalies,
    profile: Path | None = None,
    accept_foreign: bool = False,
    place: LedgerOptions,
) -> int:
    """
    Apply the deposit or rollback of an anomaly again, by the same rules; nothing is ever moved twice.

    Answered SUCCESS, the anomaly is resolved. The exit code is 1 if one is refused again, or cannot be retried.
    """
    from game_operator.ledger import Terms

    if accept_foreign and chosen.all_matching:
        raise typer.BadParameter("--accept-foreign pays calls of other operators, so pass IDs and not --all-matching.")
    terms = Terms(rules=read_profile(profile))
    retried: list[dict[str, Any]] = []
    with place.opened() as ledger:
        if (one := chosen.one) is not None:
            document = _retry_document(one, ledger.retry(one, terms, accept_foreign=accept_foreign))
            answer(document, _retry_in_words(document))
            return ExitCode.FINE if document["resolved"] else ExitCode.SAID_NO
        ids = chosen.ids(ledger, "Retry")
        if not ids:
            answer({"retried": []}, chosen.nothing_found(ledger))
            return ExitCode.FINE
        for each in ids:
            try:
                retried.append(_retry_document(each, ledger.retry(each, terms, accept_foreign=accept_foreign)))
            except (RetryRefusedError, UnknownSourceError) as refused:
                retried.append({"id": each, "resolved": False, "error": error_text(refused)})
            except LedgerError:
                # The ledger cannot go on: what was done until then is shown first.
                _show_retries(retried)
                raise
    _show_retries(retried)
    return ExitCode.FINE if all(each["resolved"] for each in retried) else ExitCode.SAID_NO


def resolve(chosen: ChosenAnomalies, place: LedgerOptions) -> None:
    """Mark anomalies as resolved, without applying anything."""
    from game_operator.ledger.sql import resolve_anomalies

    with place.opened() as ledger:
        ids = chosen.ids(ledger, "Resolve")
        if not ids:
            answer({"resolved": []}, chosen.nothing_found(ledger))
            return
        resolve_anomalies(ledger, ids)
    if chosen.one is None:
        answer({"resolved": ids}, f"Resolved: {len(ids)}.")
    else:
        answer({"id": chosen.one, "resolved": True}, f"The anomaly {chosen.one} is resolved.")


def _retry_document(anomaly_id: int, outcome: "Outcome") -> dict[str, Any]:
    """Return what came of a retry, for programs."""
    return {
        "id": anomaly_id,
        "resolved": not outcome.refused,
        "code": outcome.code,
        "applied": outcome.applied,
        "replayed": outcome.replayed,
        "balance": outcome.balance_amount,
    }


def _retry_in_words(document: Mapping[str, Any]) -> str:
    """Return what came of a retry, for people."""
    if "error" in document:
        return str(document["error"])
    if not document["resolved"]:
        return f"Refused again with {document['code']}: nothing was moved, and the anomaly stays."
    did = "It was carried out" if document["applied"] else "It was carried out before, and nothing was moved now"
    return f"{did}; the balance is {document['balance']}. The anomaly is resolved."


def _show_retries(retried: list[dict[str, Any]]) -> None:
    """Say what came of several, a line each."""
    answer({"retried": retried})
    for each in retried:
        say(f"{each['id']}: {_retry_in_words(each)}")
    say(f"Resolved: {sum(each['resolved'] for each in retried)} of {len(retried)}.")
