"""``game-operator ledger anomalies``, ``retry`` and ``resolve``: what somebody should look at."""

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
from game_operator.cli.output import answer, answer_list, explained_at, say
from game_operator.errors import LedgerError, RetryRefusedError, UnknownSourceError

if TYPE_CHECKING:
    from game_operator.ledger import AnomalyRecord, Outcome


#: The fields that people see.
COLUMNS = "id kind code operation tx_id bet_id player_id seen last_at_millis source resolved_at_millis"

AnomalyIds = Annotated[
    list[int], typer.Argument(min=1, metavar="ID", help="Numbers of anomalies, as `anomalies` lists them.")
]


def anomaly_document(record: "AnomalyRecord") -> dict[str, Any]:
    """Return an anomaly, for programs."""
    from game_operator.ledger.staff.anomalies import anomaly_texts

    body = record.body.decode(errors="backslashreplace")
    see = explained_at("anomaly", record.kind) if record.kind in anomaly_texts() else ""  # It may be the user's own.
    return record._asdict() | {"body": body, "see": see}


def anomalies(
    *,
    source: OnlySource = None,
    kind: Annotated[list[str] | None, typer.Option(callback=comma_separated)] = None,
    since_millis: Annotated[int | None, typer.Option("--since", parser=moment_in, metavar="TIME")] = None,
    until_millis: Annotated[int | None, typer.Option("--until", parser=moment_in, metavar="TIME")] = None,
    player_id: Player = None,
    id_prefix: str | None = None,
    every: Annotated[bool, typer.Option("--all")] = False,
    limit: Limit = 50,
    bodies: bool = False,
    place: LedgerOptions,
) -> None:
    """List calls that a person should check: refused deposits and rollbacks, conflicts, calls that cannot be read."""
    from game_operator.ledger.staff.anomalies import anomaly_texts

    check_between(since_millis, until_millis)
    with place.opened() as ledger, checked_values():
        matching = ledger.anomalies(
            source=source,
            kind=kind or None,
            since_millis=since_millis or 0,
            until_millis=until_millis,
            player_id=player_id,
            id_prefix=id_prefix,
            resolved=None if every else False,
        )
        found = list(islice(matching, limit + 1))
    answer_list("anomalies", list(map(anomaly_document, found)), limit, COLUMNS + " body" * bodies)
    texts = anomaly_texts()
    for each in dict.fromkeys(record.kind for record in found[:limit] if record.kind in texts):
        say(f"{each}: {texts[each]['todo']}")


def retry(
    *,
    anomaly_ids: AnomalyIds,
    profile: ProfileFile = None,
    accept_foreign: bool = False,
    place: LedgerOptions,
) -> int:
    """
    Apply the deposit or rollback of an anomaly again, by the same rules; nothing is ever moved twice.

    Answered SUCCESS, the anomaly is resolved. The exit code is 1 if one is refused again, or cannot be retried.
    """
    from game_operator.ledger import Terms

    terms = Terms(rules=read_profile(profile))
    retried: list[dict[str, Any]] = []
    code = ExitCode.FINE
    with place.opened() as ledger:
        for each in dict.fromkeys(anomaly_ids):
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


def resolve(*, anomaly_ids: AnomalyIds, place: LedgerOptions) -> None:
    """Mark anomalies as resolved, without applying anything."""
    from game_operator.ledger.office import Office

    ids = list(dict.fromkeys(anomaly_ids))
    with place.opened() as ledger:
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
