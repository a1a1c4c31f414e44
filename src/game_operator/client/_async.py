"""The async client: it performs the steps of ``exchange`` over httpx, and decides nothing itself."""

import os
import ssl
import time
import weakref
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeVar, cast

import anyio
import httpx
from anyio.lowlevel import current_token

from game_operator.client._core import JITTER, UNSET, Unset, advance, changed_settings, not_picklable, observe
from game_operator.client._direct import AsyncDirectClient
from game_operator.client._http import (
    FORKED_WITH_YOUR_CLIENT,
    HTTPX,
    Handshake,
    Target,
    Trace,
    check_open,
    gather,
    library_of,
    open_http_client,
)
from game_operator.client.config import (
    DEFAULT_POLICY,
    DEFAULT_READ_LIMITS,
    OnExchange,
    ReadLimits,
    base_url_of,
    call_settings,
    checked_watcher,
    environment_settings,
)
from game_operator.errors import ConfigurationError
from game_operator.models import GameInfo, GrantAccepted
from game_operator.protocol import operations
from game_operator.protocol.exchange import (
    Answer,
    Reply,
    Send,
    Sign,
    Signed,
    Step,
    TransportFailed,
    Waited,
    exchange,
)
from game_operator.protocol.http import HttpResponse
from game_operator.protocol.operations import AnyBet, AnyRound, Operation
from game_operator.protocol.retry import RetryPolicy
from game_operator.signers.api import AsyncSigner, Signer
from game_operator.signers.keys import KeySource, LocalSigner, is_async, load_signer
from game_operator.signers.remembered import RememberedAsyncSignatures, RememberedSignatures

__all__ = ["AsyncHttpClient", "AsyncOperatorClient"]

T = TypeVar("T")


class AsyncHttpClient(Protocol):
    """What this package needs of an ``httpx.AsyncClient`` or ``httpx2.AsyncClient``."""

    @property
    def headers(self) -> Any: ...
    @property
    def is_closed(self) -> bool: ...
    async def send(self, request: Any, *, stream: bool = ..., follow_redirects: Any = ...) -> Any: ...
    async def aclose(self) -> None: ...


class AsyncOperatorClient:
    """
    The same as ``OperatorClient``, awaited, on asyncio or trio (spec §4.2, §5).

    The arguments are those of ``OperatorClient``; *private_key* may be an ``AsyncSigner`` too, and *http_client* is an
    ``httpx.AsyncClient`` or ``httpx2.AsyncClient``. *timeout* and *deadline* are exact. A signer that is not async and
    not a key of this process is run in a worker thread. Used on a second event loop, the client opens connections of
    its own there.
    """

    def __init__(
        self,
        base_url: str,
        operator_id: str,
        private_key: KeySource,
        *,
        passphrase: str | bytes | None = None,
        timeout: float = 10.0,
        deadline: float | None = 30.0,
        retries: RetryPolicy | int = DEFAULT_POLICY,
        http_client: AsyncHttpClient | None = None,
        on_exchange: OnExchange | None = None,
        ssl_context: ssl.SSLContext | None = None,
        trust_env: bool = True,
        read_limits: ReadLimits = DEFAULT_READ_LIMITS,
        allow_insecure_http: bool = False,
    ) -> None:
        try:
            signer = load_signer(private_key, passphrase)
        finally:
            # Error trackers show the locals of every frame that an error passes.
            del private_key, passphrase
        self._base_url = base_url_of(base_url, allow_insecure_http=allow_insecure_http)
        self._settings = call_settings(operator_id=operator_id, timeout=timeout, deadline=deadline, retries=retries)
        self._signatures = _signatures(signer, operator_id)
        self._wire = _Wire(self._base_url, http_client, ssl_context, trust_env, read_limits)
        self._on_exchange = checked_watcher(on_exchange)
        self._owns_wire = True

    @classmethod
    def from_env(cls, **options: Any) -> Self:
        """Return a client set up by the environment, as ``OperatorClient.from_env`` does."""
        try:
            return cls(**environment_settings(given=options))
        finally:
            del options

    async def fetch_games(self) -> list[GameInfo]:
        """Return all games and instances; see ``OperatorClient.fetch_games`` (spec §4.2)."""
        return await self._perform(operations.fetch_games(self._settings.operator_id))

    async def fetch_bet(self, bet_id: str) -> AnyBet:
        """Return the bet in its state; see ``OperatorClient.fetch_bet`` (spec §2.4, §4.2)."""
        return await self._perform(operations.fetch_bet(self._settings.operator_id, bet_id))

    async def fetch_round_bets(
        self, *, instance_id: str, round_id: str | None = None, round_no: int | None = None
    ) -> AnyRound:
        """Return a round with its bets; see ``OperatorClient.fetch_round_bets`` (spec §2.8, §4.2)."""
        operation = operations.fetch_round_bets(instance_id=instance_id, round_id=round_id, round_no=round_no)
        return await self._perform(operation)

    async def grant_free_bet(
        self,
        *,
        player_id: str,
        instance_id: str,
        count: int,
        wager_amount_cents: int,
        expire_duration_millis: int,
        reference_id: str,
    ) -> GrantAccepted:
        """Grant free bets; see ``OperatorClient.grant_free_bet`` for limits, units and errors (spec §2.2, §8)."""
        operation = operations.grant_free_bet(
            player_id=player_id,
            instance_id=instance_id,
            count=count,
            wager_amount_cents=wager_amount_cents,
            expire_duration_millis=expire_duration_millis,
            reference_id=reference_id,
        )
        return await self._perform(operation)

    def with_options(
        self,
        *,
        timeout: float | Unset = UNSET,
        deadline: float | Unset | None = UNSET,
        retries: RetryPolicy | int | Unset = UNSET,
    ) -> Self:
        """Return a client with other bounds over the same connections, which stay this one's to close."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._settings = changed_settings(self._settings, timeout, deadline, retries)
        other._owns_wire = False
        return other

    async def aclose(self) -> None:
        """Close the connections of this event loop, unless they are yours or another client's."""
        if self._owns_wire:
            await self._wire.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        if "_settings" not in self.__dict__:
            return object.__repr__(self)  # An error tracker shows a client whose construction failed.
        return f"{type(self).__name__}(base_url={self._base_url!r}, operator_id={self._settings.operator_id!r})"

    def __reduce__(self) -> str:
        raise not_picklable(self)

    async def _perform(self, operation: Operation[T]) -> T:
        steps = exchange(operation, self._settings, started_seconds=time.monotonic(), jitter=JITTER)
        step = next(steps)
        try:
            while True:
                try:
                    reply = await self._reply(step)
                except ConfigurationError as unusable:
                    # Closed or taken away in the middle: what that means for a grant, exchange knows.
                    step = steps.throw(unusable)
                else:
                    step = advance(steps, reply)
        except StopIteration as finished:
            result: T = finished.value
            return result

    async def _reply(self, step: Step) -> Reply:
        if isinstance(step, Send):
            began = time.monotonic()
            result = await self._wire.send(step)
            ended = time.monotonic()
            if self._on_exchange is not None:
                observe(self._on_exchange, step, self._base_url, result, ended - began)
            return Answer(result, ended, time.time_ns() // 1_000_000)
        if isinstance(step, Sign):
            return await self._sign(step)
        await anyio.sleep(step.seconds)
        return Waited(time.monotonic())

    async def _sign(self, step: Sign) -> Signed:
        if isinstance(self._signatures, RememberedSignatures):
            return Signed(self._signatures.sign(step.message), time.monotonic())
        with anyio.move_on_after(step.timeout_seconds):
            return Signed(await self._signatures.sign(step.message), time.monotonic())
        late = TransportFailed("The signer did not answer before the deadline", sent=False, timed_out=True)
        return Signed(late, time.monotonic())


def _signatures(signer: Signer | AsyncSigner, operator_id: str) -> RememberedSignatures | RememberedAsyncSignatures:
    forever = operator_id.encode()
    if is_async(signer):
        return RememberedAsyncSignatures(cast("AsyncSigner", signer), forever)
    if isinstance(signer, LocalSigner):
        # Under a millisecond, and OpenSSL lets go of the interpreter meanwhile: a thread would cost more.
        return RememberedSignatures(signer, forever)
    return RememberedAsyncSignatures(_InThread(cast("Signer", signer)), forever)


class _InThread:
    """An ``AsyncSigner`` from one that blocks, such as a key management service."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    async def sign(self, message: bytes) -> bytes:
        """Return the raw signature, made in a worker thread that is left behind when the call is cancelled."""
        return await anyio.to_thread.run_sync(self._signer.sign, message, abandon_on_cancel=True)


_AnyClient: TypeAlias = AsyncDirectClient | AsyncHttpClient
#: A process and an event loop in it.
_Home: TypeAlias = tuple[int, object]


class _Wire:
    """The connections, made at the first call on each event loop."""

    def __init__(
        self,
        base_url: str,
        http_client: AsyncHttpClient | None,
        ssl_context: ssl.SSLContext | None,
        trust_env: bool,
        read_limits: ReadLimits,
    ) -> None:
        self._base_url = base_url
        self._secure = base_url.startswith("https:")
        self._ssl_context = ssl_context
        self._trust_env = trust_env
        self._read_limits = read_limits
        self._yours = http_client
        self._your_connections = None if http_client is None else _Connections(http_client)
        self._your_home: _Home | None = None
        self._library = HTTPX if http_client is None else library_of(http_client, "AsyncClient")
        self._target = Target(self._library, base_url, http_client)
        # After a fork, the parent's connections are in use there and are left alone here.
        self._ours: dict[_Home, _Connections] = {}
        self._closed = False

    async def send(self, step: Send) -> HttpResponse | TransportFailed:
        """Send *step*'s request once, within its timeout."""
        connections = self._connections() or await self._open()
        if not self._secure:
            return await self._send(connections.http_client, step, None)
        handshake = _Handshake()
        connections.calls += 1
        try:
            return handshake.judged(await self._send(connections.http_client, step, handshake))
        finally:
            connections.calls -= 1
            if handshake.unfinished is not None or connections.retired:
                with anyio.CancelScope(shield=True):
                    await self._clean_up(connections, handshake)

    async def aclose(self) -> None:
        """Close what was made here for this event loop."""
        self._closed = True
        connections = self._ours.pop(_home(), None)
        if connections is not None and connections.closing is not None:
            await connections.closing.aclose()

    def forget(self, home: _Home, http_client: "_AnyClient") -> None:
        """Use *http_client* no more, if it still is the one of *home*."""
        if home in self._ours and self._ours[home].http_client is http_client:
            del self._ours[home]

    async def _clean_up(self, connections: "_Connections", handshake: "_Handshake") -> None:
        """Close what httpcore forgets; if it was behind a proxy, let others make new *connections* instead of these."""
        if handshake.unfinished is not None:
            await handshake.unfinished.aclose()
            if self._yours is None and not isinstance(connections.http_client, AsyncDirectClient):
                connections.retired = True
                self.forget(_home(), connections.http_client)
        if connections.retired and connections.calls == 0 and connections.closing is not None:
            await connections.closing.aclose()

    async def _send(self, http_client: _AnyClient, step: Send, trace: Trace | None) -> HttpResponse | TransportFailed:
        limit = self._read_limits.of(step.operation_name)
        chunks: list[bytes] = []
        size = 0
        with anyio.move_on_after(step.timeout_seconds) as scope:
            try:
                request = self._target.request(step, trace)
                response = await http_client.send(request, stream=True, follow_redirects=False)
                try:
                    if response.is_stream_consumed:
                        return gather(response, [response.content], len(response.content), limit)
                    async for chunk in response.stream:
                        chunks.append(chunk)
                        size += len(chunk)
                        if size > limit:
                            # Leaving the loop would leave httpx's generators to the garbage collector.
                            scope.cancel()
                finally:
                    await response.aclose()
                return gather(response, chunks, size, limit)
            except Exception as error:  # A transport or a hook of the user's may raise anything, after sending too.
                return self._library.failure(error)
        if size > limit:
            return gather(response, chunks, size, limit)
        return TransportFailed("The attempt did not end in time", sent=True, timed_out=True)

    def _connections(self) -> "_Connections | None":
        if self._closed:
            raise ConfigurationError("This AsyncOperatorClient is closed. Make a new one, or close it later.")
        if self._yours is not None:
            self._check_home(self._yours)
            return self._your_connections
        return self._ours.get(_home())

    def _check_home(self, http_client: AsyncHttpClient) -> None:
        check_open(http_client)
        home = _home()
        if self._your_home is None:
            self._your_home = home
        if self._your_home[0] != home[0]:
            raise ConfigurationError(FORKED_WITH_YOUR_CLIENT)
        if self._your_home[1] is not home[1]:
            raise ConfigurationError(
                "Your http_client was first used on another event loop, and its connections live there. Build it and "
                "this client inside the loop that uses them, or leave http_client out: then each loop gets its own."
            )

    async def _open(self) -> "_Connections":
        home = _home()
        http_client: _AnyClient = open_http_client(
            AsyncDirectClient, httpx.AsyncClient, self._base_url, self._ssl_context, trust_env=self._trust_env
        )
        closing = _closing(http_client, weakref.ref(self), home)
        connections = self._ours[home] = _Connections(http_client, closing)
        await anext(closing)
        return connections


@dataclass(slots=True)
class _Connections:
    """An HTTP client, the generator that closes it if it is ours, and the calls that it is busy with."""

    http_client: _AnyClient
    closing: AsyncGenerator[None] | None = None
    calls: int = 0
    retired: bool = False


def _home() -> _Home:
    # anyio 4.11 began to wrap the loop into a token of its own.
    token = current_token()
    return os.getpid(), getattr(token, "native_token", token)


async def _closing(http_client: _AnyClient, wire: weakref.ref[_Wire], home: _Home) -> AsyncGenerator[None]:
    """
    Wait to be closed, and close *http_client*.

    An event loop closes the generators that were begun on it: when it ends, and when they are dropped. So the
    connections of a client that nobody closes are closed all the same, while their loop still runs.
    """
    try:
        yield
    finally:
        if (owner := wire()) is not None:
            owner.forget(home, http_client)
        await http_client.aclose()


class _Handshake(Handshake):
    """A ``Handshake`` that is awaited."""

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:  # type: ignore[override] # as httpcore asks
        """Take note of *event*."""
        super().__call__(event, info)
