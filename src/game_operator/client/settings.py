"""A client's settings: checked once at construction, so that no call fails on them later."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from game_operator._version import __version__
from game_operator.errors import ConfigurationError
from game_operator.protocol.exchange import CallSettings, RetryPolicy
from game_operator.signers.environment import environment_settings, operator_id_problem
from game_operator.transport.settings import checked_seconds

__all__ = [
    "DEFAULT_POLICY",
    "Exchange",
    "OnExchange",
    "call_settings",
    "checked_watcher",
    "environment_settings",
    "policy_of",
]

_USER_AGENT = f"game-operator/{__version__}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """
    One attempt, as shown to ``on_exchange``. It carries no signature and no key.

    Attributes:
        method: ``GET`` or ``POST``.
        url: The whole address.
        status: The HTTP status, or None when no response arrived.
        attempt: 1 for the first attempt of a call.
        elapsed: Seconds from sending to the last byte of the body, or to the failure.
        request_body: The exact bytes sent; ``b""`` for a GET.
        response_body: The bytes received, a signature echoed by the service cut out.
    """

    method: str
    url: str
    status: int | None
    attempt: int
    elapsed: float
    request_body: bytes
    response_body: bytes


OnExchange = Callable[[Exchange], object]

DEFAULT_POLICY = RetryPolicy()


def checked_watcher(on_exchange: OnExchange | None) -> OnExchange | None:
    """
    Return *on_exchange*, which is called, and never awaited.

    Raises:
        TypeError: It cannot be called.
        ConfigurationError: It would have to be awaited.
    """
    if on_exchange is not None and not callable(on_exchange):
        raise TypeError(f"on_exchange must be callable, not {type(on_exchange).__name__}")
    if inspect.iscoroutinefunction(on_exchange):
        raise ConfigurationError("on_exchange is async, but it is called and not awaited. Pass an ordinary function.")
    return on_exchange


def policy_of(retries: RetryPolicy | int) -> RetryPolicy:
    """Return the policy meant by *retries*: a policy, or how often a call is repeated."""
    if isinstance(retries, RetryPolicy):
        return retries
    if type(retries) is not int:
        raise TypeError(f"retries must be a RetryPolicy or an int, not {type(retries).__name__}")
    if retries < 0:
        raise ConfigurationError(f"retries is {retries}; pass 0 for a single attempt.")
    return RetryPolicy(max_attempts=retries + 1)


def call_settings(
    *, operator_id: str, timeout: float, deadline: float | None, retries: RetryPolicy | int
) -> CallSettings:
    """Return what all calls of a client have in common, checked."""
    if (problem := operator_id_problem(operator_id)) is not None:
        del operator_id  # It may be a key, and error trackers show the locals of every frame.
        raise problem
    return CallSettings(
        operator_id=operator_id,
        policy=policy_of(retries),
        timeout_seconds=checked_seconds("timeout", timeout),
        deadline_seconds=None if deadline is None else checked_seconds("deadline", deadline),
        headers=(
            (b"Accept", b"application/json"),
            # A compressed body could unpack to any size, and none of ours is worth it.
            (b"Accept-Encoding", b"identity"),
            (b"User-Agent", _USER_AGENT.encode()),
        ),
    )
