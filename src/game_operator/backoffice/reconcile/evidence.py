"""What the provider answers about a bet, as it is kept: the bytes, what they say, and a digest of what they say."""

import hashlib
import json
from dataclasses import replace
from functools import cache
from secrets import token_hex
from typing import NamedTuple, TypeVar
from weakref import WeakValueDictionary

from game_operator.client.sync import OperatorClient
from game_operator.errors import (
    ApiError,
    ConfigurationError,
    RateLimitedError,
    ServiceError,
    TransportError,
    UnexpectedResponseError,
    one_line,
    shown,
)
from game_operator.protocol import operations
from game_operator.protocol.http import HttpReply
from game_operator.protocol.operations import AnyBet, Operation

T = TypeVar("T")

_LONGEST_PROBLEM = 300
_OK = 200
_REFUSALS = frozenset({401, 403})


class Evidence(NamedTuple):
    """
    An answer about a bet.

    Attributes:
        bet_id: The bet that was asked for.
        bet: What the answer says; None if there is none, or if it cannot be read.
        body: The bytes of the answer.
        problem: Why there is no bet, or "".
        answered: Whether the service has answered at all.
        asked: How many requests it took: NOT_FOUND over a reused connection is asked again.
    """

    bet_id: str
    bet: AnyBet | None
    body: bytes
    problem: str = ""
    answered: bool = True
    asked: int = 1

    @property
    def digest(self) -> bytes:
        """SHA-256 over every field of the answer, also those this version does not know; 32 bytes."""
        return hashlib.sha256(_canonical(self.bet)).digest()


class TryLaterError(Exception):
    """
    The service did not answer, or refused.

    Attributes:
        is_refusal: Whether it asks to be called less often.
        wait_seconds: What it asked for; None if it asked for nothing.
        asked: How many requests were made.
    """

    # By place, so that it can be pickled.
    def __init__(self, problem: str, asked: int, is_refusal: bool = False, wait_seconds: float | None = None) -> None:
        super().__init__(problem, asked, is_refusal, wait_seconds)
        self.asked: int = asked
        self.is_refusal: bool = is_refusal
        self.wait_seconds: float | None = wait_seconds

    def __str__(self) -> str:
        return str(self.args[0])


class Whom(NamedTuple):
    """
    Whom a look-up asks that an executor runs in any process.

    Attributes:
        client_id: The client, in the process that has it.
        base_url, operator_id: The service and the operator.
    """

    client_id: str
    base_url: str
    operator_id: str


def whom(client: OperatorClient) -> Whom:
    """Return what stands for *client* as long as it lives."""
    client_id = token_hex(16)
    _CLIENTS[client_id] = client
    return Whom(client_id, client.base_url, client.operator_id)


def look_up_anywhere(asked: Whom, bet_id: str) -> Evidence:
    """
    Ask the provider about a bet, as ``look_up_bet``, in any process.

    A client does not travel: another process makes one by ``OperatorClient.from_env``.
    """
    client = _CLIENTS.get(asked.client_id) or _client_of_environment()
    if (client.base_url, client.operator_id) != asked[1:]:
        raise ConfigurationError(
            f"The environment of a worker process names the operator {shown(client.operator_id)} at "
            f"{client.base_url}. The run is of {shown(asked.operator_id)} at {asked.base_url}.",
            setting="executor",
        )
    return look_up_bet(client, bet_id)


_CLIENTS: "WeakValueDictionary[str, OperatorClient]" = WeakValueDictionary()


@cache
def _client_of_environment() -> OperatorClient:
    return OperatorClient.from_env().with_options(retries=0)


def look_up_bet(client: OperatorClient, bet_id: str) -> Evidence:
    """
    Ask the provider about a bet, once.

    Raises:
        TryLaterError: There was no answer, or the service asks to be called less often.
        ApiError: The service answers 401 or 403, so no call will be answered.
    """
    try:
        bet, reply = _asked(client, operations.fetch_bet(client.operator_id, bet_id))
    except ApiError as failed:
        if is_refusal_of_all(failed):
            raise
        problem = one_line(str(failed), _LONGEST_PROBLEM)
        return Evidence(bet_id, None, failed.body, problem, asked=failed.attempts)
    return Evidence(bet_id, bet, reply.body, asked=reply.attempts)


def bet_in(body: bytes, bet_id: str) -> AnyBet | None:
    """Return what an answer that was kept says of a bet, or None."""
    try:
        return operations.fetch_bet("any", bet_id).parse(HttpReply(_OK, {}, body))
    except UnexpectedResponseError:
        return None


def _canonical(bet: AnyBet | None) -> bytes:
    # What this version does not know is kept in the model, and may hold anything that JSON can.
    fields = {} if bet is None else bet.model_dump(mode="json")
    return json.dumps(fields, sort_keys=True, default=str).encode()


def _asked(client: OperatorClient, operation: Operation[T]) -> tuple[T, HttpReply]:
    replies: list[HttpReply] = []

    def parse(response: HttpReply) -> T:
        replies.append(response)
        return operation.parse(response)

    try:
        return client.perform(replace(operation, parse=parse)), replies[-1]
    except RateLimitedError as refused:
        wait = refused.retry_after
        raise TryLaterError(str(refused), refused.attempts, is_refusal=True, wait_seconds=wait) from refused
    except (ServiceError, TransportError) as failed:
        raise TryLaterError(one_line(str(failed), _LONGEST_PROBLEM), failed.attempts) from failed
    except UnexpectedResponseError as failed:
        if failed.status_code == _OK or is_refusal_of_all(failed):
            raise
        # A page of something on the way says nothing of the bet.
        raise TryLaterError(one_line(str(failed), _LONGEST_PROBLEM), failed.attempts) from failed


def is_refusal_of_all(error: ApiError) -> bool:
    """Return whether the service, or what stands before it, refuses the operator: no call will be answered."""
    return error.status_code in _REFUSALS
