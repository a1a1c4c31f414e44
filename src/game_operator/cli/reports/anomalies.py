"""Which anomalies ``game-operator ledger resolve`` and ``retry`` work on, one or many, and what came of each."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from game_operator.cli.output import say, write_document
from game_operator.cli.wording import told
from game_operator.errors import ConfigurationError, LedgerError, RetryRefusedError, UnknownSourceError, shown
from game_operator.money import amount_from_cents

if TYPE_CHECKING:
    from game_operator.ledger import Outcome, SqlLedger, Terms

__all__ = ["Chosen", "check_kinds", "no_match", "retried_each", "tell_none", "tell_retries", "tell_retry"]
__all__ += ["without_filters"]


@dataclass(frozen=True)
class Chosen:
    """
    The anomalies that a command line names: by their numbers, or as all that match.

    Raises:
        BadParameter: It names both, neither, or what only goes with the other.
    """

    ids: list[int] | None
    filters: Mapping[str, Any]
    all_matching: bool
    expect: int | None
    yes: bool

    def __post_init__(self) -> None:
        if bool(self.ids) == self.all_matching:
            raise typer.BadParameter("Name anomalies by their IDs, or pass --all-matching: one of the two.")
        if not self.all_matching and (self.filters or self.expect is not None or self.yes):
            raise typer.BadParameter("Options that choose anomalies go with --all-matching. Pass it, or the IDs alone.")

    @property
    def one(self) -> int | None:
        """The anomaly that is named alone, or None."""
        return self.ids[0] if self.ids is not None and len(self.ids) == 1 and not self.all_matching else None

    def ids_in(self, ledger: "SqlLedger", doing: str, *, as_json: bool) -> list[int]:
        """
        Return their numbers; those that match are counted first, and somebody must agree.

        Raises:
            ConfigurationError: There are not as many as expected, or nobody agrees; nothing was done.
        """
        if not self.all_matching:
            return list(dict.fromkeys(self.ids or ()))
        check_kinds(ledger, self.filters)
        found = [record.id for record in ledger.anomalies(**self.filters)]
        self._check(len(found), doing, as_json=as_json)
        return found

    def _check(self, count: int, doing: str, *, as_json: bool) -> None:
        if self.expect is not None and self.expect != count:
            raise ConfigurationError(
                f"{count} anomalies match, and {self.expect} were expected. Nothing was done: look at them with "
                "`game-operator ledger anomalies` and the same options."
            )
        if self.expect is not None or self.yes or not count:
            return
        if as_json or not _is_person():
            raise ConfigurationError(
                f"{count} anomalies match. Nothing was done: pass --expect {count} if these are meant, or --yes for "
                "however many there are."
            )
        if not typer.confirm(f"{doing} {count} anomalies?", err=True):
            raise ConfigurationError("Nothing was done.")


def check_kinds(ledger: "SqlLedger", filters: Mapping[str, Any]) -> None:
    """Raise BadParameter for a kind that nobody knows: it is a slip of the hand, and nothing would seem to wait."""
    from game_operator.ledger.staff.anomalies import KINDS

    for kind in filters.get("kind", ()):
        # A program may keep kinds of its choice.
        if kind not in KINDS and next(iter(ledger.anomalies(kind=kind, resolved=None)), None) is None:
            raise typer.BadParameter(
                f"There is no kind {shown(kind)} of anomaly. The kinds are {', '.join(sorted(KINDS))}."
            )


def without_filters(ledger: "SqlLedger", wanted: Mapping[str, Any]) -> int:
    """Return how many anomalies there are without the options that choose; 0 if there are no such options."""
    if wanted.keys() <= {"resolved"}:
        return 0
    return sum(1 for _ in ledger.anomalies(resolved=wanted.get("resolved", False)))


def no_match(others: int) -> str:
    """Return what is said where the options that choose let none of the *others* through."""
    return f"No anomaly matches. Without these options {'1 does' if others == 1 else f'{others} do'}."


def tell_none(ledger: "SqlLedger", filters: Mapping[str, Any], document: dict[str, Any], *, as_json: bool) -> None:
    """Say that there was nothing to do, and how many wait without *filters*."""
    others = without_filters(ledger, filters)
    if as_json:
        write_document(document)
    else:
        say(no_match(others) if others else "There is nothing to look at.")


def _is_person() -> bool:
    return sys.stdin.isatty()


def retried_each(
    ledger: "SqlLedger", ids: list[int], terms: "Terms", *, accept_foreign: bool, as_json: bool
) -> list[dict[str, Any]]:
    """
    Apply the calls of anomalies again, and return what came of each.

    Raises:
        LedgerError: The ledger cannot go on; what was done until then is shown.
    """
    done: list[dict[str, Any]] = []
    try:
        for each in ids:
            result = _retried_or_not(ledger, each, terms, accept_foreign=accept_foreign)
            done.append(result)
    except LedgerError:
        tell_retries(done, as_json=as_json)
        raise
    return done


def _retried_or_not(ledger: "SqlLedger", anomaly_id: int, terms: "Terms", *, accept_foreign: bool) -> dict[str, Any]:
    """Apply the call of an anomaly again, and return what came of it, or why it cannot be retried."""
    try:
        outcome = ledger.retry(anomaly_id, terms, accept_foreign=accept_foreign)
    except (RetryRefusedError, UnknownSourceError) as refused:
        return {"id": anomaly_id, "resolved": False, "error": told(refused)}
    return _document(anomaly_id, outcome)


def tell_retry(anomaly_id: int, outcome: "Outcome", *, as_json: bool) -> None:
    """Say what came of one retry."""
    document = _document(anomaly_id, outcome)
    if as_json:
        write_document(document)
    elif outcome.refused:
        say(f"Refused again with {outcome.code}: nothing was moved, and the anomaly stays.")
    else:
        say(f"{_did(document)}; the balance is {document['balance']}. The anomaly is resolved.")


def tell_retries(retried: list[dict[str, Any]], *, as_json: bool) -> None:
    """Say what came of several, a line each."""
    if as_json:
        write_document({"retried": retried})
        return
    for each in retried:
        say(f"{each['id']}: {_line(each)}")
    say(f"Resolved: {sum(each['resolved'] for each in retried)} of {len(retried)}.")


def _document(anomaly_id: int, outcome: "Outcome") -> dict[str, Any]:
    return {
        "id": anomaly_id,
        "resolved": not outcome.refused,
        "code": outcome.code,
        "applied": outcome.applied,
        "replayed": outcome.replayed,
        "balance": None if outcome.balance_cents is None else amount_from_cents(outcome.balance_cents),
    }


def _line(document: dict[str, Any]) -> str:
    if "error" in document:
        return str(document["error"])
    if not document["resolved"]:
        return f"Refused again with {document['code']}: nothing was moved, and the anomaly stays."
    return f"{_did(document)}."


def _did(document: dict[str, Any]) -> str:
    return "It was carried out" if document["applied"] else "It was carried out before, and nothing was moved now"
