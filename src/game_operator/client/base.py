"""What the sync and the async client share: everything but the awaits."""

import inspect
import logging
import random
import signal
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from game_operator._version import __version__
from game_operator.client.garbage_collection import relaxed_gc
from game_operator.errors import ConfigurationError
from game_operator.protocol.exchange import Answer, CallSettings, Reply, RetryPolicy, Send, Step
from game_operator.protocol.http import HttpResponse
from game_operator.signers.environment import operator_id_problem
from game_operator.transport.settings import checked_seconds

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


T = TypeVar("T")

_log = logging.getLogger("game_operator.client")
_LARGE_BODY = 256 * 1024


class Unset:
    """The type of an argument that was not given, where None has a meaning of its own."""

    def __repr__(self) -> str:
        return "<as before>"


UNSET: Final = Unset()

#: Endless, and safe to share between threads: ``random.random`` is one call into C.
JITTER: Iterator[float] = iter(random.random, None)


def changed_settings(
    settings: CallSettings,
    timeout: float | Unset,
    deadline: float | Unset | None,
    retries: RetryPolicy | int | Unset,
) -> CallSettings:
    """Return *settings* with what was given changed."""
    changes: dict[str, Any] = {}
    if not isinstance(timeout, Unset):
        changes["timeout_seconds"] = checked_seconds("timeout", timeout)
    if not isinstance(deadline, Unset):
        changes["deadline_seconds"] = None if deadline is None else checked_seconds("deadline", deadline)
    if not isinstance(retries, Unset):
        changes["policy"] = policy_of(retries)
    return replace(settings, **changes)


def advance(steps: Generator[Step, Reply, T], reply: Reply) -> Step:
    """Send *reply* to *steps* and return the next one; a large body is parsed with the collector relaxed."""
    if isinstance(reply, Answer) and isinstance(reply.result, HttpResponse) and len(reply.result.body) > _LARGE_BODY:
        with relaxed_gc():
            return steps.send(reply)
    return steps.send(reply)


def observe(on_exchange: OnExchange, step: Send, base_url: str, result: object, elapsed: float) -> None:
    """Show an attempt to *on_exchange*; what it raises must not change the fate of a grant."""
    try:
        on_exchange(_exchange(step, base_url, result, elapsed))
    except Exception as error:  # It is the user's own code, which may raise anything.
        if _came_out_of_a_signal(error):
            raise
        _log.exception("on_exchange raised; the call goes on")


def _came_out_of_a_signal(error: Exception) -> bool:
    """Return whether a signal handler raised *error*, as Celery's does for its soft time limit."""
    handlers = map(signal.getsignal, signal.valid_signals())
    codes = {code for handler in handlers if (code := getattr(handler, "__code__", None)) is not None}
    passed = error.__traceback__
    while passed is not None and passed.tb_frame.f_code not in codes:
        passed = passed.tb_next
    return passed is not None


def not_picklable(client: object) -> TypeError:
    """Return the error for an attempt to pickle *client*."""
    name = type(client).__name__
    return TypeError(
        f"{name} holds a private key and connections and is not pickled; "
        f"build one in each process instead, for example with {name}.from_env()"
    )


def _exchange(step: Send, base_url: str, result: object, elapsed: float) -> Exchange:
    request = step.request
    response = None
    if isinstance(result, HttpResponse):
        signature = next(value for name, value in request.headers if name == b"X-Signature")
        response = result.without_echoes(signature)
    return Exchange(
        method=request.method,
        url=base_url + request.path,
        status=None if response is None else response.status,
        attempt=step.attempt,
        elapsed=elapsed,
        request_body=request.body,
        response_body=b"" if response is None else response.body,
    )
