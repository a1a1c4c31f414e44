"""What the sync and the async client share: their settings, and what a step looks like from outside."""

import logging
import random
import signal
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar

from game_operator.client.garbage_collection import relaxed_gc
from game_operator.client.settings import Exchange, OnExchange, policy_of
from game_operator.protocol.exchange import Answer, CallSettings, Reply, RetryPolicy, Send, Step
from game_operator.protocol.http import HttpResponse
from game_operator.transport.settings import checked_seconds

__all__ = ["JITTER", "UNSET", "Unset", "advance", "changed_settings", "not_picklable", "observe"]

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
