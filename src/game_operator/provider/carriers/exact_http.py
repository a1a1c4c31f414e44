"""Carries parcels over HTTP; each has its exact time, whatever the wallet does."""

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

from game_operator.errors import ConfigurationError, RequestNotSentError, TransportError, shown
from game_operator.profile import Profile
from game_operator.protocol.http import HeaderPairs, HttpResponse
from game_operator.provider.caller import AsyncWebhookCaller, Delivery
from game_operator.provider.carriers.carrier import Carried, Parcel
from game_operator.provider.requests import Manner, Request
from game_operator.signers.keys import LocalSigner
from game_operator.transport.misbehaving import Roughness, post_roughly

__all__ = ["HttpCarrier"]

_HALF_SECONDS: Final = 2.0
_ROUGH: Final = {
    Manner.CUT: Roughness.RESET,
    Manner.CHUNKED: Roughness.CHUNKED,
    Manner.SLOW: Roughness.SLOW,
    Manner.HALF: Roughness.HALF,
    Manner.WHOLE: Roughness.PLAIN,
}
#: A shorter value is no secret, and may be a part of anything.
_LEAST_SECRET: Final = 8


class HttpCarrier:
    """
    Carries parcels to the wallet at *url*.

    Args:
        url: The wallet's address, what ``/withdraw`` and the others are below.
        signer: The service's; nothing is signed with it here.
        second_url: Another process of the same wallet.
        elsewhere: An address of this machine that requests may come from.
        headers: More headers for each request.
        profile: What is assumed.
        timeout: Seconds for one request.
        allow_insecure_http: Whether plain http may go to another machine.
        ssl_context: Whom to trust over https.

    Raises:
        ConfigurationError: A setting cannot work, or an event loop runs in this thread.
    """

    on_wire = True

    def __init__(
        self,
        url: str,
        signer: LocalSigner,
        *,
        second_url: str | None = None,
        elsewhere: str | None = None,
        headers: HeaderPairs = (),
        profile: Profile,
        timeout: float,
        allow_insecure_http: bool = False,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        _check_no_loop()
        self._caller_of = partial(
            AsyncWebhookCaller,
            signing_key=signer,
            profile=profile,
            timeout=timeout,
            allow_insecure_http=allow_insecure_http,
            ssl_context=ssl_context,
        )
        addresses = {"wallet": url} if second_url is None else {"wallet": url, "second": second_url}
        # One for each of the calls that are at once, made when it is needed: httpx looks through all connections of a
        # client, for each call and more than once, and with fifty of them that takes longer than the wallet does.
        self._callers = {name: [self._caller_of(address)] for name, address in addresses.items()}
        _check_ours(elsewhere)
        self._elsewhere = elsewhere
        self._headers = headers
        # The whole value first; then its words, for of "Bearer TOKEN" an answer may quote the token alone.
        words = [form for _, value in headers for word in (value, *value.split()) for form in _forms(word)]
        self._secrets = sorted({word for word in words if len(word) >= _LEAST_SECRET}, key=len, reverse=True)
        self._timeout = timeout
        self._ssl_context = ssl_context
        self._runner = asyncio.Runner()

    def carry(self, parcels: Sequence[Parcel]) -> list[Carried]:
        """Carry *parcels*, all at once if there are several."""
        return self._runner.run(self._carried(parcels))

    def close(self) -> None:
        """Close the connections."""
        self._runner.run(self._closed())
        self._runner.close()

    async def _closed(self) -> None:
        for callers in self._callers.values():
            for caller in callers:
                await caller.aclose()

    async def _carried(self, parcels: Sequence[Parcel]) -> list[Carried]:
        return await asyncio.gather(*map(self._one, parcels, range(len(parcels))))

    async def _one(self, parcel: Parcel, place: int) -> Carried:
        carried = await self._heard(parcel, place)
        answer = carried.answer
        if answer is not None:
            headers = tuple((name, self._without_values(value)) for name, value in answer.headers)
            answer = replace(answer, headers=headers, body=self._without_values(answer.body))
        problem = self._without_values(carried.problem.encode()).decode()
        return replace(carried, answer=answer, problem=problem)

    def _without_values(self, told: bytes) -> bytes:
        """Return *told* without the values of the user's headers, which an answer may quote: one may be a token."""
        for secret in self._secrets:
            told = told.replace(secret, "…".encode())
        return told

    async def _heard(self, parcel: Parcel, place: int) -> Carried:
        began = time.perf_counter()
        try:
            answer = await (self._roughly(parcel) if _is_rough(parcel.request) else self._posted(parcel, place))
        except RequestNotSentError as failed:
            return Carried(None, failed.reason, time.perf_counter() - began, failed.timed_out, unreachable=True)
        except TransportError as failed:
            return Carried(None, failed.reason, time.perf_counter() - began, failed.timed_out)
        except TimeoutError:
            return Carried(None, f"no answer within {self._timeout:g} s", time.perf_counter() - began, timed_out=True)
        except (OSError, ValueError) as failed:
            return Carried(None, str(failed) or type(failed).__name__, time.perf_counter() - began)
        problem = answer.defect if answer else "the connection was cut before the answer, on purpose"
        return Carried(answer, problem, time.perf_counter() - began)

    async def _posted(self, parcel: Parcel, place: int) -> HttpResponse:
        request = parcel.request
        # The caller says by itself that a body is JSON.
        pairs = [each for each in (*parcel.headers, *self._headers) if each[0].lower() != b"content-type"]
        told = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]
        delivery: Delivery = await self._caller(request.at, place).post(request.path, request.body, told, signed=False)
        return HttpResponse(delivery.status, delivery.headers, delivery.body, delivery.defect)

    def _caller(self, name: str, place: int) -> AsyncWebhookCaller:
        callers = self._callers["second" if name == "second" else "wallet"]
        while len(callers) <= place:
            callers.append(self._caller_of(callers[0].url))
        return callers[place]

    async def _roughly(self, parcel: Parcel) -> HttpResponse | None:
        request = parcel.request
        caller = self._caller(request.at, 0)
        return await post_roughly(
            f"{caller.url}{request.path}",
            (*parcel.headers, *self._headers),
            request.body,
            _ROUGH[request.manner],
            self._patience(request),
            method=request.method,
            ssl_context=self._ssl_context,
            local_address=self._elsewhere if request.at == "elsewhere" else None,
        )

    def _patience(self, request: Request) -> float:
        # Nobody owes an answer to half a request.
        return min(self._timeout, _HALF_SECONDS) if request.manner is Manner.HALF else self._timeout


def _is_rough(request: Request) -> bool:
    """Return whether no ordinary client would send it so."""
    own_type = any(name.lower() == "content-type" for name, _ in request.headers)
    odd = request.method != "POST" or own_type or request.at == "elsewhere" or request.seal.times > 1
    # Of a body without a byte, the caller would tell neither type nor length.
    return odd or not request.body or request.manner is not Manner.WHOLE


def _forms(value: bytes) -> Iterator[bytes]:
    """Yield *value* as an answer may quote it: as it is, in JSON, in HTML and in an address."""
    text = value.decode("latin-1")
    for form in (text, json.dumps(text)[1:-1], html.escape(text), quote(text, safe="")):
        yield form.encode("latin-1", errors="replace")


def _check_ours(address: str | None) -> None:
    """Hold that *address* is one of this machine's: from another nothing would arrive, and that proves nothing."""
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


def _check_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError(
        "certify() waits for the wallet, and an event loop runs in this thread. Call it in another thread: "
        "await asyncio.to_thread(certify, …)."
    )
