"""
Carries requests to a wallet over HTTP, well-behaved and misbehaving. Each ends in time, even if the wallet hangs.

A fault never replaces a delivery: the wallet gives the reply that is lost, and the connection that is reset was open.
"""

import asyncio
import html
import json
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote

from game_operator.client.settings import base_url_of
from game_operator.errors import ConfigurationError, RequestNotSentError, TransportError, shown
from game_operator.profile import Profile
from game_operator.protocol.exchange import TransportFailed, checked_seconds
from game_operator.protocol.http import HeaderPairs, HttpReply, redacted
from game_operator.transport.async_ import AsyncWire
from game_operator_testkit.provider.caller import beside_type, error_of, not_delivered, webhook_step, wire_settings
from game_operator_testkit.provider.delivery import Begun, Carried, Post
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.provider.kept_connections import ClosedUnansweredError, WatchingBackend
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.provider.misbehaving import post_roughly
from game_operator_testkit.provider.requests import UNSIGNED, Manner, Request

_HALF_SECONDS: Final = 2.0
#: A shorter value is not taken for a secret: it may stand in any text.
_LEAST_SECRET: Final = 8
#: Why nothing came back although nothing failed, by the manner of the request.
_NOT_AWAITED: Final = {
    Manner.HANG_UP: "timeout: the service hung up before the answer",
    Manner.CUT: "the connection was reset before the answer, on purpose",
}


class HttpCarrier:
    """
    Signs requests and carries them to the wallet at *url*, from one event loop.

    Args:
        url: The wallet's address, what ``/withdraw`` and the others are below.
        keys: What requests are signed with.
        profile: Names the header of the signature.
        second_url: Another process of the same wallet.
        elsewhere: An address of this machine that requests may come from.
        headers: More headers for each request; their values are cut out of what comes back.
        timeout: Seconds for one request.
        allow_insecure_http: Whether plain http may go to another machine.
        ssl_context: Whom to trust over https.

    Raises:
        ConfigurationError: A setting cannot work.
    """

    on_wire = True

    def __init__(
        self,
        url: str,
        keys: ServiceKeys,
        *,
        profile: Profile | None = None,
        second_url: str | None = None,
        elsewhere: str | None = None,
        headers: HeaderPairs = (),
        timeout: float = 10.0,
        allow_insecure_http: bool = False,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        # First, because error trackers show what a frame holds: keys and headers are secret.
        self._timeout = checked_seconds("timeout", timeout)
        self._keys = keys
        self._header = (profile or Profile()).signature_header
        address_of = partial(base_url_of, allow_insecure_http=allow_insecure_http, name="url")
        url = address_of(url)
        second_url = url if second_url is None else address_of(second_url)
        self._urls = {"wallet": url, "elsewhere": url, "second": second_url}
        self._wires = {
            each: AsyncWire(*wire_settings(type(self).__name__, each, ssl_context), WatchingBackend)
            for each in (url, second_url)
        }
        _check_ours(elsewhere)
        self._elsewhere = elsewhere
        self._headers = headers
        # The whole value first, then its words: an answer may quote only the token of "Bearer TOKEN".
        words = [form for _, value in headers for word in (value, *value.split()) for form in _forms(word)]
        self._secrets = sorted({word for word in words if len(word) >= _LEAST_SECRET}, key=len, reverse=True)
        self._ssl_context = ssl_context
        self._runner: asyncio.Runner | None = None

    def carry(self, requests: Sequence[Request]) -> list[Carried]:
        """Carry *requests*, all at once if there are several, on an event loop that is kept for that."""
        self._runner = self._runner or asyncio.Runner()
        return self._runner.run(self._all(requests))

    def close(self) -> None:
        """Close the connections of ``carry``."""
        if self._runner is not None:
            self._runner.run(self.aclose())
            self._runner.close()

    async def carry_one(self, request: Request) -> Carried:
        """Carry *request*. What a wallet does never raises."""
        answer: HttpReply | None = None
        problem, timed_out, unreachable, remedy = "", False, False, ""
        closed: list[ClosedUnansweredError] = []
        begun = self._begun(request)
        try:
            every = (*begun.headers, *self._headers)
            rough = _is_rough(request)
            answer = await (self._roughly(begun, every) if rough else self._posted(request, every, closed))
            problem = answer.defect if answer else _NOT_AWAITED[request.manner]
        except TransportError as failed:
            problem, timed_out = failed.reason, failed.timed_out
            unreachable, remedy = isinstance(failed, RequestNotSentError), failed.remedy
        except TimeoutError:
            problem, timed_out = f"no answer within {self._timeout:g} s", True
        except (OSError, ValueError) as failed:
            problem = str(failed) or type(failed).__name__
        if answer is not None and self._secrets:
            answer = redacted(answer, self._without_values)
        problem = self._without_values(problem.encode()).decode()
        last = closed[-1] if closed else None
        return begun.carried(answer, problem, timed_out=timed_out, unreachable=unreachable, remedy=remedy, closed=last)

    async def carry_post(self, post: Post) -> Carried:
        """
        Carry *post*, with its faults.

        Raises:
            RequestNotSentError: The wallet cannot be reached.
        """
        if post.manner is Fault.REQUEST_LOST:
            return self._begun(post.request).carried(None, "request lost")
        carried = await self.carry_request(post.request)
        if post.manner is Fault.REPLY_LOST and carried.answer is not None:
            carried = replace(carried, problem="reply lost", is_lost=True)
        return carried

    async def carry_request(self, request: Request) -> Carried:
        """Carry *request*; raise as ``carry_post`` does."""
        carried = await self.carry_one(request)
        if carried.unreachable:
            raise not_delivered(
                carried.problem, carried.elapsed_seconds, timed_out=carried.timed_out, remedy=carried.remedy
            )
        return carried

    async def carry_again(self, path: str, body: bytes, headers: HeaderPairs) -> Carried:
        """Carry what was posted before, with the *headers* that it had; raise as ``carry_post`` does."""
        texts = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in beside_type(headers))
        return await self.carry_request(Request("", path, body, UNSIGNED, headers=texts))

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        for wire in self._wires.values():
            await wire.aclose()

    async def _all(self, requests: Sequence[Request]) -> list[Carried]:
        return await asyncio.gather(*map(self.carry_one, requests))

    async def _posted(self, request: Request, headers: HeaderPairs, closed: list[ClosedUnansweredError]) -> HttpReply:
        url = self._urls[request.at]
        step = webhook_step(request.path, request.body, headers, self._timeout, fresh=request.fresh)
        began = time.monotonic()
        try:
            result = await self._wires[url].send(step)
        except ClosedUnansweredError as error:
            # Once more, on a new connection, within what is left of the time.
            closed.append(error)
            left = max(self._timeout - (time.monotonic() - began), 0.0)
            step = replace(step, attempt=2, fresh=True, timeout_seconds=left)
            result = await self._wires[url].send(step)
        if isinstance(result, TransportFailed):
            raise error_of(url, step, result, time.monotonic() - began)
        return replace(result, attempts=step.attempt)

    async def _roughly(self, begun: Begun, headers: HeaderPairs) -> HttpReply | None:
        request = begun.request
        # A wallet need not answer half a request.
        timeout = min(self._timeout, _HALF_SECONDS) if request.manner is Manner.HALF else self._timeout
        address = self._elsewhere if request.at == "elsewhere" else None
        return await post_roughly(
            begun.url, request, headers, timeout, ssl_context=self._ssl_context, local_address=address
        )

    def _begun(self, request: Request) -> Begun:
        return Begun(request, self._keys.headers(request, self._header), f"{self._urls[request.at]}{request.path}")

    def _without_values(self, text: bytes) -> bytes:
        """Return *text* without the values of the user's headers: an answer may quote them, and one may be a token."""
        for secret in self._secrets:
            text = text.replace(secret, "…".encode())
        return text


def _is_rough(request: Request) -> bool:
    """Return whether no ordinary client would send it so."""
    own_type = any(name.lower() == "content-type" for name, _ in request.headers)
    odd = request.method != "POST" or own_type or request.at == "elsewhere" or request.seal.times > 1
    # For an empty body the caller would send neither type nor length.
    return odd or not request.body or request.manner is not Manner.WHOLE


def _forms(value: bytes) -> Iterator[bytes]:
    """Yield *value* as an answer may quote it: as it is, in JSON, in HTML and in an address."""
    text = value.decode("latin-1")
    for form in (text, json.dumps(text)[1:-1], html.escape(text), quote(text, safe="")):
        yield form.encode("latin-1", errors="replace")


def _check_ours(address: str | None) -> None:
    """Check that *address* belongs to this machine. From another, nothing would arrive, which proves nothing."""
    if address is None:
        return
    try:
        family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
        with socket.socket(family) as bound:
            bound.bind((address, 0))
    except (ValueError, OSError) as failed:
        raise ConfigurationError(
            f"{shown(address)} is not an address of this machine ({failed}).",
            setting="elsewhere",
            remedy="Pass one that calls can come from, such as 127.0.0.2.",
        ) from None
