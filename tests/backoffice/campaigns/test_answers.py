"""What an attempt at a grant means: the table that keeps a grant from being lost or made twice."""

import pytest

from game_operator import (
    AuthenticationError,
    BadRequestError,
    FreeBetRejectedError,
    GameOperatorError,
    GrantAccepted,
    GrantErrorCode,
    OperatorInactiveError,
    OutcomeUnknownError,
    RateLimitedError,
    RequestNotSentError,
    ServiceError,
    UnexpectedResponseError,
)
from game_operator.backoffice.campaigns.answers import GrantState, answer_of
from game_operator.backoffice.campaigns.grants import Grant

GRANT = Grant("p1", "i1", 5, 100, 1_000)
PLANNED, UNANSWERED, GRANTED, REFUSED = (
    GrantState.PLANNED,
    GrantState.UNANSWERED,
    GrantState.GRANTED,
    GrantState.REFUSED,
)


def rejected(code: str) -> FreeBetRejectedError:
    """Return the error for a refusal."""
    known = GrantErrorCode(code) if code in GrantErrorCode.__members__ else code
    return FreeBetRejectedError("no", error_code=known, reference_id="c/p1", body=b"{}", attempts=1)


def unknown(cause: GameOperatorError | None = None, code: str | None = None) -> OutcomeUnknownError:
    """Return the error for an attempt that may have been carried out."""
    error = OutcomeUnknownError("it hung up", reference_id="c/p1", instance_id="i1", error_code=code)
    error.__cause__ = cause
    return error


ACCEPTED = GrantAccepted(success=True, free_bet_id="f1", message="ok")
#: A refusal that concerns this grant alone, and one that stops the whole campaign.
NO, STOPS = "no", "stops"


@pytest.mark.parametrize(
    ("result", "state", "state_in_doubt", "refusal"),
    [
        pytest.param(ACCEPTED, GRANTED, GRANTED, "", id="accepted"),
        pytest.param(rejected("DUPLICATE_REFERENCE_ID"), GRANTED, GRANTED, "", id="duplicate"),
        pytest.param(unknown(code="DUPLICATE_REFERENCE_ID"), GRANTED, GRANTED, "", id="duplicate after no answer"),
        pytest.param(unknown(code="INSTANCE_NOT_FOUND"), UNANSWERED, UNANSWERED, "", id="no instance after no answer"),
        pytest.param(rejected("INVALID_COUNT"), REFUSED, REFUSED, NO, id="refused"),
        pytest.param(rejected("A_NEW_CODE"), REFUSED, UNANSWERED, NO, id="refused by a code that nobody knows"),
        pytest.param(BadRequestError("bad", status_code=400, attempts=1), REFUSED, UNANSWERED, NO, id="400"),
        pytest.param(rejected("INSTANCE_NOT_FOUND"), PLANNED, UNANSWERED, STOPS, id="no such instance"),
        pytest.param(rejected("INVALID_INSTANCE_ID"), PLANNED, UNANSWERED, STOPS, id="an invalid instance"),
        pytest.param(AuthenticationError("401", status_code=401, attempts=1), PLANNED, UNANSWERED, STOPS, id="401"),
        pytest.param(OperatorInactiveError("403", status_code=403, attempts=1), PLANNED, UNANSWERED, STOPS, id="403"),
        pytest.param(RateLimitedError("429", attempts=1), PLANNED, UNANSWERED, "", id="429"),
        pytest.param(UnexpectedResponseError("HTML", status_code=404), PLANNED, UNANSWERED, NO, id="404 in HTML"),
        pytest.param(RequestNotSentError("refused"), PLANNED, UNANSWERED, "", id="never sent"),
        pytest.param(unknown(), UNANSWERED, UNANSWERED, "", id="no answer"),
        pytest.param(unknown(ServiceError("500", status_code=500)), UNANSWERED, UNANSWERED, "", id="500"),
    ],
)
def test_the_table(
    result: GrantAccepted | GameOperatorError, state: GrantState, state_in_doubt: GrantState, refusal: str
) -> None:
    """By what came of an attempt, and whether an earlier one may have been carried out; the canary stops at any no."""
    answer = answer_of(result, GRANT, "c/p1", in_doubt=False)
    assert (answer.state, answer.refused, bool(answer.stops)) == (state, refusal != "", refusal == STOPS)
    assert answer_of(result, GRANT, "c/p1", in_doubt=True).state is state_in_doubt


@pytest.mark.parametrize(
    ("result", "in_doubt", "kind"),
    [
        pytest.param(rejected("DUPLICATE_REFERENCE_ID"), False, "grant_duplicate", id="a duplicate without doubt"),
        pytest.param(rejected("DUPLICATE_REFERENCE_ID"), True, None, id="our own"),
        pytest.param(unknown(code="DUPLICATE_REFERENCE_ID"), False, None, id="our own, within one call"),
        pytest.param(rejected("INVALID_COUNT"), True, "grant_refused_in_doubt", id="refused after silence"),
        pytest.param(rejected("INVALID_COUNT"), False, None, id="refused"),
        pytest.param(ACCEPTED, True, None, id="accepted"),
    ],
)
def test_findings(result: GrantAccepted | GameOperatorError, in_doubt: bool, kind: str | None) -> None:
    finding = answer_of(result, GRANT, "c/p1", in_doubt=in_doubt).finding
    assert (finding and finding.kind) == kind
    if finding is not None:
        assert (finding.subject, finding.tx_id, finding.player_id, finding.at_stake_cents) == ("c/p1", "i1", "p1", 500)


@pytest.mark.parametrize(
    ("result", "refused", "millis", "evidence"),
    [
        (RateLimitedError("429"), True, 0, b""),
        (RateLimitedError("429", retry_after=0.0), True, 0, b""),
        (RateLimitedError("429", retry_after=2.5), True, 2_500, b""),
        (RateLimitedError("429", retry_after=1e9), True, 86_400_000, b""),
        (unknown(ServiceError("500", status_code=500, body=b"oops")), True, 0, b"oops"),
        (unknown(), False, 0, None),
    ],
)
def test_a_service_in_trouble_is_asked_less_often(
    result: GameOperatorError, refused: bool, millis: int, evidence: bytes | None
) -> None:
    answer = answer_of(result, GRANT, "c/p1", in_doubt=False)
    assert (answer.paced.refused, answer.paced.wait_millis, answer.paced.failed) == (refused, millis, 1)
    assert answer.evidence == evidence


@pytest.mark.parametrize(
    ("result", "field"),
    [
        (GrantAccepted(success=True, free_bet_id="f1", message="m" * 900_000), "message"),
        (GrantAccepted(success=True, free_bet_id="f" * 900_000, message="m"), "free_bet_id"),
        (rejected("X" * 900_000), "error_code"),
    ],
    ids=["message", "free_bet_id", "error_code"],
)
def test_of_a_long_answer_the_beginning_is_kept(result: GrantAccepted | GameOperatorError, field: str) -> None:
    """A service that talks much does not fill the database."""
    answer = answer_of(result, GRANT, "c/p1", in_doubt=False)
    assert len(answer.facts[field]) == 1_000
    assert len(answer.evidence or b"") < 4_096
