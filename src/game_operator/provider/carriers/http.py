"""
Carries posts to a wallet over HTTP, with the faults of the network laid over them.

A fault never stands in for a delivery: a reply that is lost was really given, a connection that is reset was really
open. Whatever cannot be heard is an ``Answer`` that says so; only a wallet that nobody can reach is an error.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlsplit

from game_operator.errors import DeliveryInDoubtError, MalformedCallError, RequestNotSentError
from game_operator.profile import Profile
from game_operator.protocol.http import HeaderPairs, HttpResponse, is_loopback
from game_operator.protocol.webhook_reply import read_reply
from game_operator.provider.caller import AsyncWebhookCaller, Delivery
from game_operator.provider.delivery import Answer, Post, answers_in, unheard
from game_operator.provider.faults import Fault
from game_operator.provider.keys import ServiceKeys
from game_operator.transport.http_library import default_ssl_context, from_environment
from game_operator.transport.misbehaving import Roughness, post_roughly
from game_operator.transport.settings import base_url_of

__all__ = ["Carried", "Courier", "HttpCourier", "Witness", "delivery_of"]

_ROUGH: Final = {Fault.TIMEOUT: Roughness.HANG_UP, Fault.RESET: Roughness.RESET, Fault.SLOW: Roughness.SLOW}
_HUNG_UP: Final = {
    Fault.TIMEOUT: "timeout: the service hung up before the answer",
    Fault.RESET: "the connection was reset before the answer",
}
#: What every post says of its body; the caller writes it by itself.
_JSON: Final = (b"Content-Type", b"application/json")
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Carried:
    """
    What really happened to a post, whatever the service heard of it.

    Attributes:
        post: The post.
        url: Where it went.
        headers: The headers that tell it from others: content type and signature.
        body: The bytes that were sent.
        began_millis: When, by the machine's clock.
        elapsed_seconds: How long it took.
        answer: What came back; None if nothing did.
        problem: Why nothing came back, or why the service did not hear it, or could not read it.
    """

    post: Post
    url: str
    headers: HeaderPairs = field(repr=False)
    body: bytes
    began_millis: int
    elapsed_seconds: float
    answer: HttpResponse | None
    problem: str = ""


#: Names and values.
Headers: TypeAlias = tuple[tuple[str, str], ...]
#: Told of each post when it is over.
Witness: TypeAlias = Callable[[Carried], object]


class Courier(Protocol):
    """Whoever carries posts."""

    async def post(self, post: Post) -> tuple[Answer, ...]:
        """
        Carry *post* and return an answer for each of its calls.

        Raises:
            TransportError: Nobody can reach the wallet.
        """


class HttpCourier:
    """
    Carries posts to the wallet at *url*, from one event loop.

    Args:
        url: The wallet's address.
        keys: What posts are signed with.
        profile: Tells the header of the signature.
        witness: Told of each post when it is over.
        timeout: Seconds for one post.
        patience: Seconds for which a wallet that nobody can reach is tried again, as it may be starting.
        allow_insecure_http: Whether plain http may go to another machine.
    """

    def __init__(
        self,
        url: str,
        keys: ServiceKeys,
        *,
        profile: Profile | None = None,
        witness: Witness | None = None,
        timeout: float = 10.0,
        patience: float = 0.0,
        allow_insecure_http: bool = False,
    ) -> None:
        # Here, for whoever plays in process needs no aiohttp.
        from httpx_aiohttp import HttpxAiohttpClient

        self._keys = keys
        self._header = (profile or Profile()).signature_header
        self._witness = witness
        self._timeout = timeout
        self._patience = patience
        # It signs nothing: that is done here, by the key that a post asks for.
        url = base_url_of(url, allow_insecure_http=allow_insecure_http, name="url")
        # A proxy of the environment leads away from this machine.
        to_this_machine = is_loopback(urlsplit(url).hostname or "")
        # Reading the root certificates takes longer than a round: once for all, and not at all for plain http.
        context = from_environment(lambda: default_ssl_context(url, trust_env=True))
        self._http = from_environment(
            lambda: HttpxAiohttpClient(verify=context, trust_env=not to_this_machine, timeout=None)
        )
        self._caller = AsyncWebhookCaller(
            url,
            keys.current,
            profile=profile,
            timeout=timeout,
            allow_insecure_http=allow_insecure_http,
            http_client=self._http,
        )

    async def post(self, post: Post) -> tuple[Answer, ...]:
        """Carry *post*; see ``Courier``."""
        signed = post.signed
        body = post.sent_for(signed)
        headers = ((self._header, self._keys.signature(post, signed).decode()),)
        return await self.send(post, body, headers)

    async def send(self, post: Post, body: bytes, headers: Headers) -> tuple[Answer, ...]:
        """Carry *body* with *headers* in the manner of *post*."""
        began_millis, began = time.time_ns() // 1_000_000, time.perf_counter()
        answer, problem = await self._carried(post, body, headers)
        if self._witness is not None:
            elapsed = time.perf_counter() - began
            raw = (_JSON, *((name.encode(), value.encode()) for name, value in headers))
            url = f"{self._caller.url}{post.path}"
            told = problem or ("" if answer is None else answer.defect)
            self._witness(Carried(post, url, raw, body, began_millis, elapsed, answer, told))
        # Traces and reports show the answer, and a signature is as good as money (docs/decisions/0030).
        for signature in (value for name, value in headers if name.lower() == self._header.lower()):
            problem = problem.replace(signature, "[signature removed]")
            answer = None if answer is None else answer.without(signature.encode())
        if answer is None or problem:
            return unheard(post.calls, problem)
        return answers_in(post, answer.status, answer.body, answer.defect)

    async def send_again(self, path: str, body: bytes, headers: Headers) -> tuple[HttpResponse | None, str]:
        """Post what was posted before; return what came back, if anything did, and why not, or not whole, or ""."""
        own = tuple((name, value) for name, value in headers if name.lower() != "content-type")
        try:
            delivery = await self._caller.post(path, body, own, signed=False)
        except DeliveryInDoubtError as doubt:
            return None, str(doubt)
        return _response(delivery), delivery.defect

    async def aclose(self) -> None:
        """Close the connections."""
        await self._caller.aclose()
        await self._http.aclose()

    async def _carried(self, post: Post, body: bytes, headers: Headers) -> tuple[HttpResponse | None, str]:
        """Return what came back, if anything did, and why the service does not hear it, or ""."""
        if post.manner is Fault.REQUEST_LOST:
            return None, "request lost"
        if post.manner in _ROUGH:
            return await self._roughly(post, body, headers)
        try:
            delivery = await self._patiently(post.path, body, headers)
        except DeliveryInDoubtError as doubt:
            return None, str(doubt)
        return _response(delivery), "reply lost" if post.manner is Fault.REPLY_LOST else ""

    async def _roughly(self, post: Post, body: bytes, headers: Headers) -> tuple[HttpResponse | None, str]:
        assert post.manner is not None
        raw = [_JSON, *((name.encode(), value.encode()) for name, value in headers)]
        try:
            manner = _ROUGH[post.manner]
            answer = await post_roughly(f"{self._caller.url}{post.path}", raw, body, manner, self._timeout)
        except (OSError, ValueError) as broken:
            return None, f"{post.manner}: {str(broken) or type(broken).__name__}"
        return answer, "" if answer is not None else _HUNG_UP[post.manner]

    async def _patiently(self, path: str, body: bytes, headers: Headers) -> Delivery:
        deadline, pause = time.monotonic() + self._patience, _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._caller.post(path, body, headers, signed=False)
            except RequestNotSentError:
                if time.monotonic() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _response(delivery: Delivery) -> HttpResponse:
    return HttpResponse(delivery.status, delivery.headers, delivery.body, delivery.defect)


def delivery_of(carried: Carried) -> Delivery | None:
    """Return what came back as a ``Delivery``, or None if nothing did."""
    answer = carried.answer
    if answer is None:
        return None
    reply, problem = None, answer.defect
    if not problem:
        try:
            reply = read_reply(answer.body)
        except MalformedCallError as malformed:
            problem = str(malformed)
    return Delivery(
        path=carried.post.path,
        posted=carried.body,
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
        reply=reply,
        problem=problem,
        elapsed_seconds=carried.elapsed_seconds,
        defect=answer.defect,
    )
