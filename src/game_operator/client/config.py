"""A client's settings: checked once at construction, so that no call fails on them later."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from game_operator._version import __version__
from game_operator.errors import ConfigurationError, shown
from game_operator.protocol.exchange import CallSettings
from game_operator.protocol.http import is_loopback
from game_operator.protocol.retry import LONGEST_SECONDS, RetryPolicy
from game_operator.signers.environment import environment_settings, operator_id_problem

__all__ = [
    "DEFAULT_POLICY",
    "DEFAULT_READ_LIMITS",
    "Exchange",
    "OnExchange",
    "ReadLimits",
    "base_url_of",
    "call_settings",
    "checked_seconds",
    "checked_watcher",
    "environment_settings",
    "policy_of",
]

#: A name, an IPv4 or a bracketed IPv6 address, and perhaps a port: neither empty, nor a template that nobody filled in.
_LABEL = r"[A-Za-z0-9_-]{1,63}"
_AUTHORITY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?\Z")
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


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """
    How many bytes of a response body are read: the catalogue may be long, nothing else is.

    Attributes:
        catalogue: Of fetch-games: 16 MiB. 20,000 games are 15 MB.
        other: Of any other answer: 4 MiB.
    """

    catalogue: int = 16 * 1024 * 1024
    other: int = 4 * 1024 * 1024

    def __post_init__(self) -> None:
        for name in ("catalogue", "other"):
            size = getattr(self, name)
            if type(size) is not int:
                raise TypeError(f"{name} must be a number of bytes, not {type(size).__name__}")
            if size < 1:
                raise ConfigurationError(f"{name} is {size}, but no answer is shorter than 1 byte.")

    def of(self, operation_name: str) -> int:
        """Return the limit for the endpoint *operation_name*."""
        return self.catalogue if operation_name == "fetch-games" else self.other


OnExchange = Callable[[Exchange], object]

DEFAULT_POLICY = RetryPolicy()
DEFAULT_READ_LIMITS = ReadLimits()


def base_url_of(
    text: str, *, allow_insecure_http: bool, name: str = "base_url", example: str = "https://api.example.com"
) -> str:
    """
    Return the base URL, the argument called *name*, without its trailing slash; an error names *example*.

    Raises:
        ConfigurationError: It is no http(s) address, carries what does not belong there, or is plain http to
            another machine.
    """
    checked = _base_url_or_problem(text, allow_insecure_http, name, example)
    del text  # Error trackers show the locals of every frame, and a key may have been passed in its place.
    if isinstance(checked, Exception):
        raise checked
    return checked


def _base_url_or_problem(text: object, allow_insecure_http: bool, name: str, example: str) -> str | Exception:
    if not isinstance(text, str):
        return TypeError(f"{name} must be a str, not {type(text).__name__}")
    parts = _split(text)
    if parts.username is not None or parts.password is not None:
        return ConfigurationError(f"{name} carries a user name or password. Remove it: calls are signed instead.")
    if parts.scheme not in {"http", "https"} or not _AUTHORITY.match(parts.netloc) or not text.isprintable():
        return ConfigurationError(f"{name} {shown(text)} is not a valid address. Pass one like {example}.")
    if not text.isascii() or not set("?# ").isdisjoint(text):
        return ConfigurationError(
            f"{name} {shown(text)} carries a query, a fragment, a space or letters beyond ASCII. "
            "Pass the address alone."
        )
    if text.rstrip("/").endswith("/api/v0.2"):
        return ConfigurationError(
            f"{name} {shown(text)} ends in /api/v0.2, which every path begins with. Leave it out."
        )
    if parts.scheme == "http" and not allow_insecure_http and not is_loopback(parts.hostname or ""):
        return ConfigurationError(
            f"{name} {shown(text)} is plain http to another machine: anyone on the way could read and replay signed "
            "requests. Use https, or pass allow_insecure_http=True if the way is private."
        )
    # Schemes are told apart by comparing text from here on, and HTTPS:// is the same as https://.
    return parts.scheme + text[len(parts.scheme) :].rstrip("/")


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    return parts


def checked_seconds(name: str, value: float) -> float:
    """
    Return *value* as positive, finite seconds.

    Raises:
        TypeError: It is not a number.
        ConfigurationError: It is not positive, or over a million.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__} {shown(value)}")
    if not 0 < value <= LONGEST_SECONDS:
        raise ConfigurationError(f"{name} is {shown(value)}, but must be a positive number of seconds up to a million.")
    return float(value)


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
