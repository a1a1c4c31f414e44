"""What the provider answers now about the bet, and whether it agrees with ours, as a reconciliation judges it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from game_operator.backoffice.case.redaction import Bytes, Foreign, Free
from game_operator.errors import ApiError
from game_operator.protocol.http import service_name

if TYPE_CHECKING:
    from game_operator.backoffice.reconcile.evidence import Evidence
    from game_operator.backoffice.reconcile.judge import Ours
    from game_operator.client.sync import OperatorClient

#: The verdicts with which the two sides agree; an old bet that both have OPEN is an alarm, and no difference.
_AGREE: Final = frozenset({"agrees", "wait", "nears_the_end", "test_bet"})
#: A case file is of a bet of any age, whatever its game pays.
_ANY_WIN: Final = 1 << 62


def asked(
    client: "OperatorClient | None", ours: "Ours", bet_id: str, clock_millis: Callable[[], int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ask the provider for the bet; return its answer and the comparison, for the contents of a case file."""
    if client is None:
        nothing = {"was_asked": False, "service": None, "asked_at_millis": None, "answer": None, "body": None}
        return nothing | {"problem": "The provider was not asked."}, _compared(None, ours, 0)
    at_millis = clock_millis()
    evidence = _looked_up(client, bet_id)
    there = {
        "was_asked": True,
        "service": service_name(client.base_url, client.operator_id),
        "asked_at_millis": at_millis,
        "problem": Free(evidence.problem) if evidence.problem else "",
        "answer": None if evidence.bet is None else Foreign(evidence.bet.model_dump()),
        "body": Bytes(evidence.body) if evidence.body else None,
    }
    return there, _compared(evidence, ours, at_millis)


def _looked_up(client: "OperatorClient", bet_id: str) -> "Evidence":
    from game_operator.backoffice.reconcile.evidence import (  # They load the client.
        Evidence,
        TryLaterError,
        look_up_bet,
    )

    try:
        return look_up_bet(client, bet_id)
    except (TryLaterError, ApiError) as failed:
        cause = failed.__cause__ if isinstance(failed, TryLaterError) else failed
        body = cause.body if isinstance(cause, ApiError) else b""
        return Evidence(bet_id, None, body, f"{type(cause).__name__}: {cause}", answered=False)


def _compared(evidence: "Evidence | None", ours: "Ours", now_millis: int) -> dict[str, Any]:
    from game_operator.backoffice.reconcile.judge import Limits, judge
    from game_operator.models import BetNotFound

    if evidence is None or evidence.bet is None:
        text = "The two sides were not compared: the provider was not asked or did not answer."
        return {"agrees": None, "verdict": None, "text": text}
    judgement = judge(ours, evidence, Limits(now_millis, 0, _ANY_WIN))
    if judgement.verdict not in _AGREE:
        return {"agrees": False, "verdict": str(judgement.verdict), "text": Free(judgement.detail)}
    text = "The ledger and the provider agree about the bet."
    if ours.bet is None and isinstance(evidence.bet, BetNotFound):
        text = "Neither the ledger nor the provider has the bet."
    return {"agrees": True, "verdict": str(judgement.verdict), "text": text}
