"""``game-operator ledger anomalies``, ``retry`` and ``resolve``: what somebody should look at."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from game_operator.cli.database import LedgerOptions
from game_operator.cli.errors import ExitCode, error_text, exit_code_of
from game_operator.cli.options import (
    Limit,
    OnlySource,
    Player,
    ProfileFile,
    check_between,
    checked_values,
    comma_separated,
    moment_in,
    read_profile,
)
from game_operator.cli.output import answer, answer_list, wants_json
from game_operator.errors import ConfigurationError, LedgerError, RetryRefusedError, UnknownSourceError

if TYPE_CHECKING:
    from game_operator.ledger import AnomalyRecord, Outcome, SqlLedger


#: The fields that people see.
COLUMNS = "id kind code operation tx_id bet_id player_id seen last_at_millis source resolved_at_millis"


@dataclass(frozen=True, kw_only=True)
class AnomalyFilters:
    """
    Which anomalies to list.

    Raises:
        BadParameter: No time is between --since and --until.
    """

    source: OnlySource = None
    kind: Annotated[list[str] | None, typer.Option(callback=comma_separated)] = None
    since_millis: Annotated[int | None, typer.Option("--since", parser=moment_in, metavar="TIME")] = None
    until_millis: Annotated[int | None, typer.Option("--until", parser=moment_in, metavar="TIME")] = None
    player_id: Player = None
    id_prefix: str | None = None

    def __post_init__(self) -> None:
        check_between(self.since_millis, self.until_millis)

    @property
    def wanted(self) -> Mapping[str, Any]:
        """The options that were given, as arguments of ``anomalies``."""
        given = {option.name: getattr(self, option.name) for option in fields(AnomalyFilters)}
        return {name: value for name, value in given.items() if value not in (None, [])}


@dataclass(frozen=True, kw_only=True)
class ChosenAnomalies(AnomalyFilters):
    """
    The anomalies to work on: by their numbers, or all that match.

    Raises:
        BadParameter: The command line has both, neither, or what only goes with the other.
    """

    anomaly_ids: Annotated[list[int] | None, typer.Argument(min=1)] = None
    all_matching: bool = False
    expect: Annotated[int | None, typer.Option(min=0)] = None
    yes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.anomaly_ids) == self.all_matching:
            raise typer.BadParameter("Name anomalies by their IDs, or pass --all-matching: one of the two.")
        if not self.all_matching and (self.wanted or self.expect is not None or self.yes):
            raise typer.BadParameter("Options that choose anomalies go with --all-matching. Pass it, or the IDs alone.")

    def ids(self, ledger: "SqlLedger", doing: str) -> list[int]:
        """
        Return their numbers; those that match are counted first, and somebody must agree.

        Raises:
            ConfigurationError: There are not as many as expected, or it was not confirmed. Nothing was done.
        """
        if not self.all_matching:
            return list(dict.fromkeys(self.anomaly_ids or ()))
        with checked_values():
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


def anomaly_document(record: "AnomalyRecord") -> dict[str, Any]:
    """Return an anomaly, for programs."""
    return record._asdict() | {"body": record.body.decode(errors="backslashreplace")}


def anomalies(
    *,
    filters: AnomalyFilters,
    every: Annotated[bool, typer.Option("--all")] = False,
    limit: Limit = 50,
    bodies: bool = False,
    place: LedgerOptions,
) -> None:
    """List calls that a person should check: refused deposits and rollbacks, conflicts, calls that cannot be read."""
    with place.opened() as ledger, checked_values():
        found = list(islice(ledger.anomalies(resolved=None if every else False, **filters.wanted), limit + 1))
    answer_list("anomalies", list(map(anomaly_document, found)), limit, COLUMNS + " body" * bodies)


def retry(
    *,
    chosen: ChosenAnomalies,
    profile: ProfileFile = None,
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
    code = ExitCode.FINE
    with place.opened() as ledger:
        for each in chosen.ids(ledger, "Retry"):
            try:
                retried.append(_retry_document(each, ledger.retry(each, terms, accept_foreign=accept_foreign)))
            except LedgerError as failed:
                is_refused = isinstance(failed, RetryRefusedError | UnknownSourceError)
                if not is_refused and not retried:
                    raise
                retried.append({"id": each, "resolved": False, "error": error_text(failed)})
                if not is_refused:  # The ledger cannot go on, and what was done until then is shown.
                    code = exit_code_of(failed)
                    break
    resolved = sum(each["resolved"] for each in retried)
    sentence = f"Resolved: {resolved} of {len(retried)}."
    answer({"retried": retried}, sentence, view={"retried": "id resolved code applied replayed balance error"})
    return code or (ExitCode.FINE if resolved == len(retried) else ExitCode.SAID_NO)


def resolve(chosen: ChosenAnomalies, place: LedgerOptions) -> None:
    """Mark anomalies as resolved, without applying anything."""
    from game_operator.ledger.office import Office

    with place.opened() as ledger:
        ids = chosen.ids(ledger, "Resolve")
        Office(ledger).resolve(ids)
    answer({"resolved": ids}, f"Resolved: {len(ids)}.")


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
