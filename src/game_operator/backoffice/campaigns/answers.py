"""
What one attempt at a grant means. Pure, and the core of a campaign: the difference between a grant that was made, one
that was refused, and one that nobody knows of.

An attempt is in doubt if an earlier one with the same reference id may have been carried out. Then a second one with
the same reference id and the same values is safe, and DUPLICATE_REFERENCE_ID answers it: granted. Without doubt that
code counts as granted too, because a campaign's reference ids are its own: another copy of its database sent it. A
finding says so, because the terms may be others.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from game_operator.backoffice.campaigns.grants import Grant
from game_operator.backoffice.journal_records import Paced
from game_operator.codes import GrantErrorCode
from game_operator.errors import (
    ApiError,
    AuthenticationError,
    BadRequestError,
    FreeBetRejectedError,
    GameOperatorError,
    OperatorInactiveError,
    OutcomeUnknownError,
    RateLimitedError,
    ServiceError,
)
from game_operator.ledger.rules.book import NewFinding
from game_operator.models import GrantAccepted

_MILLIS: Final = 1_000
#: A service that asks for more is asked again after this.
_LONGEST_WAIT_MILLIS: Final = 86_400_000
#: Of an answer, so much is kept as evidence: there may be a million of them.
_KEPT_BYTES: Final = 4_096
#: Of each of its texts, so many characters.
_KEPT_CHARACTERS: Final = 1_000
#: Refusals that would meet every player of the instance.
_OF_INSTANCE: Final = frozenset({GrantErrorCode.INVALID_INSTANCE_ID, GrantErrorCode.INSTANCE_NOT_FOUND})


class GrantState(StrEnum):
    """Where a grant of a campaign stands. In the journal, a planned one has no state yet."""

    PLANNED = "planned"
    """It was not asked for, or the service certainly did not make it yet."""
    SENDING = "sending"
    """It is being asked for now; or was, by a process that has died, and may have been made."""
    UNANSWERED = "unanswered"
    """It was asked for, and may have been made. It is asked for again, under the same reference id."""
    GRANTED = "granted"
    """The service made it."""
    REFUSED = "refused"
    """The service did not make it, and said why."""


#: Grants in these states are asked for no more.
SETTLED: Final = frozenset({GrantState.GRANTED, GrantState.REFUSED})
#: In these, a grant may have been made.
IN_DOUBT: Final = frozenset({GrantState.SENDING, GrantState.UNANSWERED})


class Answer(NamedTuple):
    """
    What became of an attempt.

    Attributes:
        state: Where the grant stands now.
        facts: What is kept of the answer, beside the grant.
        evidence: The answer's first 4 KiB, or None; of a grant that was made, what was read of it.
        finding: What a person should look into, or None.
        paced: What it means for the rate.
        refused: Whether the service said no.
        stops: Why the whole campaign stops, or "".
    """

    state: GrantState
    facts: Mapping[str, Any]
    evidence: bytes | None
    paced: Paced
    finding: NewFinding | None = None
    refused: bool = False
    stops: str = ""


def answer_of(result: GrantAccepted | GameOperatorError, grant: Grant, reference_id: str, *, in_doubt: bool) -> Answer:
    """Return what the *result* of one attempt at *grant* means, *in_doubt* by the attempts before it."""
    if isinstance(result, GrantAccepted):
        facts = {"free_bet_id": _kept(result.free_bet_id), "message": _kept(result.message)}
        return Answer(GrantState.GRANTED, facts, json.dumps(facts).encode(), Paced(answered=1))
    # A code that nobody knows ends no doubt.
    if isinstance(result, FreeBetRejectedError) and (not in_doubt or isinstance(result.error_code, GrantErrorCode)):
        return _rejected(result, grant, reference_id, in_doubt=in_doubt)
    unsettled = GrantState.UNANSWERED if in_doubt else GrantState.PLANNED
    facts, evidence = {"message": _kept(str(result))}, _body(result)
    match result:
        case OutcomeUnknownError(error_code=GrantErrorCode.DUPLICATE_REFERENCE_ID as code):
            facts = {"error_code": code, **facts}
            return Answer(GrantState.GRANTED, facts, _body(result.__cause__), Paced(answered=1))
        case OutcomeUnknownError():
            is_down = isinstance(result.__cause__, ServiceError)
            body = _body(result.__cause__)
            return Answer(GrantState.UNANSWERED, facts, body, Paced(failed=1, refused=is_down))
        case RateLimitedError():
            wait_millis = min(round((result.retry_after or 0) * _MILLIS), _LONGEST_WAIT_MILLIS)
            return Answer(unsettled, facts, evidence, Paced(failed=1, refused=True, wait_millis=wait_millis))
        case AuthenticationError() | OperatorInactiveError():
            return Answer(unsettled, facts, evidence, Paced(), refused=True, stops=result.what)
        case BadRequestError() if not in_doubt:
            return Answer(GrantState.REFUSED, facts, evidence, Paced(failed=1), refused=True)
    return Answer(unsettled, facts, evidence, Paced(failed=1), refused=isinstance(result, ApiError))


def _rejected(rejected: FreeBetRejectedError, grant: Grant, reference_id: str, *, in_doubt: bool) -> Answer:
    code = rejected.error_code
    facts = {"error_code": _kept(str(code)), "message": _kept(rejected.message)}
    if code in _OF_INSTANCE:
        state = GrantState.UNANSWERED if in_doubt else GrantState.PLANNED
        return Answer(state, facts, _body(rejected), Paced(), refused=True, stops=rejected.what)
    if code == GrantErrorCode.DUPLICATE_REFERENCE_ID:
        detail = (
            f"The reference id was used on the instance {grant.instance_id} before, and not by this database: perhaps "
            "by another copy of it. It counts as granted. Ask the provider whether the terms are the same."
        )
        finding = None if in_doubt else _finding("grant_duplicate", detail, grant, reference_id, _body(rejected))
        return Answer(GrantState.GRANTED, facts, _body(rejected), Paced(answered=1), finding)
    doubtful = None
    if in_doubt:
        detail = (
            f"The service refused with {code} after an attempt that went unanswered and may have been carried out. Ask "
            "the provider before you grant to this player again."
        )
        doubtful = _finding("grant_refused_in_doubt", detail, grant, reference_id, _body(rejected))
    return Answer(GrantState.REFUSED, facts, _body(rejected), Paced(failed=1), doubtful, refused=True)


def _finding(kind: str, detail: str, grant: Grant, reference_id: str, body: bytes | None) -> NewFinding:
    return NewFinding(
        kind,
        reference_id,
        detail,
        tx_id=grant.instance_id,
        player_id=grant.player_id,
        at_stake_cents=grant.exposure_cents,
        evidence=body,
    )


def _kept(text: str) -> str:
    return text[:_KEPT_CHARACTERS]


def _body(error: BaseException | None) -> bytes | None:
    return error.body[:_KEPT_BYTES] if isinstance(error, ApiError) else None
