"""What the provider answers about a bet, as it is kept: the bytes, what they say, and a digest of what they say."""

import hashlib
import json
from typing import NamedTuple, TypeVar

from game_operator.client.sync import OperatorClient
from game_operator.errors import (
    ApiError,
    RateLimitedError,
    ServiceError,
    TransportError,
    UnexpectedResponseError,
    one_line,
)
from game_operator.models import ClosedBet, OpenBet, RolledBackBet, RoundFound
from game_operator.models.webhooks import problem_of_id
from game_operator.protocol import operations
from game_operator.protocol.http import HttpReply
from game_operator.protocol.operations import AnyBet, Operation

T = TypeVar("T")

_LONGEST_PROBLEM = 300
_OK = 200
_REFUSALS = frozenset({401, 403})
_LONGEST_ID = 256


class Evidence(NamedTuple):
    """
    An answer about a bet.

    Attributes:
        bet_id: The bet that was asked for.
        bet: What the answer says; None if there is none, or if it cannot be read.
        body: The bytes of the answer.
        problem: Why there is no bet, or "".
        answered: Whether the service has answered at all.
    """

    bet_id: str
    bet: AnyBet | None
    body: bytes
    problem: str = ""
    answered: bool = True

    @property
    def digest(self) -> bytes:
        """SHA-256 over every field of the answer, also those this version does not know; 32 bytes."""
        return hashlib.sha256(_canonical(self.bet)).digest()


class TryLaterError(Exception):
    """The service did not answer, or refused; *wait_seconds* is what it asked for, None if it asked for nothing."""

    def __init__(self, problem: str, *, is_refusal: bool = False, wait_seconds: float | None = None) -> None:
        super().__init__(problem)
        self.is_refusal: bool = is_refusal
        self.wait_seconds: float | None = wait_seconds


def look_up_bet(client: OperatorClient, bet_id: str) -> Evidence:
    """
    Ask the provider about a bet, once.

    Raises:
        TryLaterError: There was no answer, or the service asks to be called less often.
        ApiError: The service answers 401 or 403, so no call will be answered.
    """
    try:
        bet, body = _asked(client, operations.fetch_bet(client.operator_id, bet_id))
    except ApiError as failed:
        if is_refusal_of_all(failed):
            raise
        return Evidence(bet_id, None, failed.body, one_line(str(failed), _LONGEST_PROBLEM))
    return Evidence(bet_id, bet, body)


def look_up_round(client: OperatorClient, instance_id: str, round_id: str) -> tuple[Evidence, ...] | None:
    """
    Ask the provider about a round, once; return what it says of each bet, or None if it cannot be read or found.

    Raises:
        TryLaterError, ApiError: As ``look_up_bet``.
    """
    try:
        found, _ = _asked(client, operations.fetch_round_bets(instance_id=instance_id, round_id=round_id))
    except ApiError as failed:
        if is_refusal_of_all(failed):
            raise
        return None
    if not isinstance(found, RoundFound) or (found.round_id, found.instance_id) != (round_id, instance_id):
        return None
    return tuple(map(_of_round, found.bets))


def bet_in(body: bytes, bet_id: str) -> AnyBet | None:
    """Return what an answer that was kept says of a bet, or None."""
    try:
        return operations.fetch_bet("any", bet_id).parse(HttpReply(_OK, {}, body))
    except UnexpectedResponseError:
        return None


def _of_round(bet: OpenBet | ClosedBet | RolledBackBet) -> Evidence:
    # An id that no bet here can have could not be stored; escaped it is another one, and judged as such.
    is_possible = not problem_of_id(bet.reference_id, _LONGEST_ID)
    bet_id = bet.reference_id if is_possible else one_line(bet.reference_id, _LONGEST_ID)
    return Evidence(bet_id, bet, _canonical(bet))


def _canonical(bet: AnyBet | None) -> bytes:
    # What this version does not know is kept in the model, and may hold anything that JSON can.
    fields = {} if bet is None else bet.model_dump(mode="json")
    return json.dumps(fields, sort_keys=True, default=str).encode()


def with_body(operation: Operation[T]) -> Operation[tuple[T, bytes]]:
    """Return *operation* such that its answer comes with the bytes that it was read from."""
    parse = operation.parse

    def parse_both(response: HttpReply) -> tuple[T, bytes]:
        return parse(response), response.body

    return Operation(operation.name, operation.method, operation.path, operation.to_sign, parse_both, operation.body)


def _asked(client: OperatorClient, operation: Operation[T]) -> tuple[T, bytes]:
    try:
        return client.perform(with_body(operation))
    except RateLimitedError as refused:
        raise TryLaterError(str(refused), is_refusal=True, wait_seconds=refused.retry_after) from refused
    except (ServiceError, TransportError) as failed:
        raise TryLaterError(one_line(str(failed), _LONGEST_PROBLEM)) from failed
    except UnexpectedResponseError as failed:
        if failed.status_code == _OK or is_refusal_of_all(failed):
            raise
        # A page of something on the way says nothing of the bet.
        raise TryLaterError(one_line(str(failed), _LONGEST_PROBLEM)) from failed


def is_refusal_of_all(error: ApiError) -> bool:
    """Return whether the service, or what stands before it, refuses the operator: no call will be answered."""
    return error.status_code in _REFUSALS
