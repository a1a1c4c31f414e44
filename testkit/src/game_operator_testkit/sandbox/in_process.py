"""
The sandbox without a socket: clients ask it, and it plays rounds against a wallet, all in the caller's own process.

What goes to and fro is byte for byte what would go over HTTP, signatures included. There is no network that could be
slow or cut off: the faults ``timeout``, ``reset`` and ``slow`` each lose the reply here, after the wallet has acted.
"""

import inspect
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from functools import partial
from typing import Any, Final, Self, TypeVar, Unpack

import httpx

from game_operator.errors import ConfigurationError
from game_operator.profile import Profile
from game_operator.protocol.http import HttpRequest
from game_operator.webhooks.authenticators import RsaSignature
from game_operator.webhooks.receiver import WebhookReceiver
from game_operator_testkit.provider.delivery import Begun, Carried, Delivery, Post
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.provider.in_process import (
    Deliver,
    OwnLoop,
    WalletInProcess,
    a_loop_runs_here,
    answer_of,
    called,
    delivery_to,
    not_awaited,
)
from game_operator_testkit.provider.keys import ServiceKeys, ThrowAwayKeys
from game_operator_testkit.sandbox.base import Carry, SandboxBase
from game_operator_testkit.sandbox.service.requested_rounds import RoundRequest
from game_operator_testkit.sandbox.service.state import PlayedRound

T = TypeVar("T")

#: Why there is no reply.
_NO_REPLY: Final = {
    Fault.REQUEST_LOST: "request lost",
    Fault.REPLY_LOST: "reply lost",
    Fault.TIMEOUT: "timeout, in process: reply lost",
    Fault.RESET: "connection reset, in process: reply lost",
    Fault.SLOW: "slow network, in process: reply lost",
}


class InProcessSandbox(SandboxBase):
    """
    The service, played in this process (spec §4.1, §4.2).

    Args:
        operator_id: The operator that is registered.
        seed: The same seed makes the same games, bets and rounds; None stands for 0.
        clock: The service's clock, in Unix milliseconds; bets and rounds age by it. None is the machine's.
        profile: What is assumed: names of fields, the signature's header, and how a handler's calls are read.
        keys: Keys to share with other sandboxes; None makes others, which takes a good part of a second.
    """

    def __init__(
        self,
        operator_id: str = "acme",
        *,
        seed: int | None = None,
        clock: Callable[[], int] | None = None,
        profile: Profile | None = None,
        keys: ThrowAwayKeys | None = None,
    ) -> None:
        keys = keys or ThrowAwayKeys()
        super().__init__(operator_id, keys.operator, lambda: keys.service, seed=seed, clock=clock, profile=profile)
        self.transport: httpx.MockTransport = httpx.MockTransport(self._answer)
        """Answers in place of a network: for an ``httpx.Client`` or ``httpx.AsyncClient`` of your own."""
        self._wallet: WalletInProcess | None = None
        self._deliver: Deliver | None = None
        self._trusted: tuple[ServiceKeys, WebhookReceiver] | None = None
        self._loop = OwnLoop()

    @property
    def wallet(self) -> WalletInProcess | None:
        """
        The wallet that rounds are played against.

        Set it to a ``WebhookHandler`` or ``AsyncWebhookHandler``, which is put behind a receiver that trusts this
        sandbox; or to a function of path, headers and body, sync or async, that posts them to your application and
        returns the response: any test client's, an ``HttpReply``, or (status, headers, body). ``asgi_wallet`` and
        ``wsgi_wallet`` make such a function of an application.
        """
        return self._wallet

    @wallet.setter
    def wallet(self, wallet: WalletInProcess | None) -> None:
        self._deliver = None if wallet is None else delivery_to(wallet, self._receiver)
        self._wallet = wallet

    async def play_round_async(self, **request: Unpack[RoundRequest]) -> PlayedRound:
        """
        Play a round on the caller's event loop and return it; *request* are the arguments of ``play_round``.

        The wallet may be sync or async.
        """
        carry = partial(self._carry, self._check_ready())
        return await self.service.play(self.service.requested.round(**request), carry)

    async def claim_free_bets_async(self, free_bet_id: str) -> PlayedRound:
        """Claim on the caller's event loop and return the round, as ``claim_free_bets`` does."""
        carry = partial(self._carry, self._check_ready())
        return await self.service.play(self.service.requested.claim(free_bet_id), carry)

    async def release_held_async(self, *, lost: bool = False) -> tuple[Delivery, ...]:
        """Send what was held back on the caller's event loop, and return what ``release_held`` does."""
        return await self.service.release(partial(self._carry, self._check_ready()), lost=lost)

    def close(self) -> None:
        """Close the event loop, if an async wallet needed one."""
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"InProcessSandbox({self.operator_id!r})"

    @property
    def base_url(self) -> str:
        """What clients take for the service's address; the name is never looked up."""
        return "http://sandbox.localhost"

    def _client_options(self, *, is_async: bool = False) -> dict[str, Any]:
        client = httpx.AsyncClient if is_async else httpx.Client
        return {"http_client": client(transport=self.transport, trust_env=False)}

    def _check_ready(self) -> Deliver:
        if self._deliver is None:
            raise ConfigurationError("The sandbox knows no wallet. Set its attribute wallet to play rounds.")
        return self._deliver

    def _receiver(self) -> WebhookReceiver:
        """Return a receiver that trusts the service's present key, as if it knew of every rotation."""
        keys = self.service.keys
        if self._trusted is None or self._trusted[0] is not keys:
            signature = RsaSignature(keys.current.public_key_pem())
            self._trusted = keys, WebhookReceiver(authenticator=signature, profile=self.service.profile)
        return self._trusted[1]

    def _run(self, work: Callable[[Carry], Coroutine[Any, Any, T]]) -> T:
        deliver = self._check_ready()
        working = work(partial(self._carry, lambda *request: self._awaited(deliver(*request))))
        try:
            # It never suspends, because nothing is left to await. A sync wallet must not meet an event loop.
            working.send(None)
        except StopIteration as ended:
            result: T = ended.value
        return result

    async def _carry(self, deliver: Deliver, post: Post) -> Carried:
        request, answer = post.request, None
        begun = Begun(request, self.service.keys.headers(request, self.service.profile.signature_header))
        if post.manner is not Fault.REQUEST_LOST:
            response = called(deliver, begun)
            answer = answer_of(await response if inspect.isawaitable(response) else response)
        lost = _NO_REPLY.get(post.manner) if post.manner else None
        return begun.carried(answer, lost or "", is_lost=lost is not None)

    def _awaited(self, response: Any) -> Any:
        """Return *response*, or what comes of it if it must be awaited."""
        if not inspect.isawaitable(response):
            return response
        if a_loop_runs_here():
            raise not_awaited(response, "Await play_round_async or claim_free_bets_async.")
        return self._loop.result_of(response)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        """Answer *request* as raw as it would stand on the wire."""
        now_millis = self._clock()
        # Servers hand over header names in lower case.
        headers = tuple((name.lower(), value) for name, value in request.headers.raw)
        path = request.url.raw_path.decode("ascii")
        response = self.service.answered(HttpRequest(request.method, path, headers, request.content), now_millis)
        date = {"date": formatdate(now_millis // 1_000, usegmt=True)}
        return httpx.Response(response.status, headers={**response.headers, **date}, content=response.body)
