"""The async client: it performs the steps of ``exchange`` over httpx, and decides nothing itself."""

import ssl
import time
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import anyio

from game_operator.client.base import (
    DEFAULT_POLICY,
    JITTER,
    UNSET,
    OnExchange,
    Unset,
    advance,
    call_settings,
    changed_settings,
    checked_watcher,
    not_picklable,
    observe,
)
from game_operator.models import GameInfo, GrantAccepted
from game_operator.protocol import operations
from game_operator.protocol.exchange import (
    Answer,
    Reply,
    RetryPolicy,
    Send,
    Sign,
    Signed,
    Step,
    TransportFailed,
    Waited,
    exchange,
)
from game_operator.protocol.operations import AnyBet, AnyRound, Operation
from game_operator.signers.environment import environment_settings
from game_operator.signers.keys import (
    AsyncSigner,
    KeySource,
    LocalSigner,
    RememberedAsyncSignatures,
    RememberedSignatures,
    Signer,
    is_async,
    load_signer,
)
from game_operator.transport.async_ import AsyncHttpClient, AsyncWire
from game_operator.transport.settings import DEFAULT_READ_LIMITS, ReadLimits, base_url_of

T = TypeVar("T")

_CLOSED = "This AsyncOperatorClient is closed. Make a new one, or close it later."


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
            self._base_url = base_url_of(base_url, allow_insecure_http=allow_insecure_http)
            self._settings = call_settings(operator_id=operator_id, timeout=timeout, deadline=deadline, retries=retries)
        finally:
            # Error trackers show the locals of every frame that an error passes, and a key may be in the wrong place.
            del base_url, operator_id, private_key, passphrase
        self._signatures = _signatures(signer, self._settings.operator_id)
        self._wire = AsyncWire(_CLOSED, self._base_url, http_client, ssl_context, trust_env, read_limits)
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
                except BaseException as interruption:
                    # Closed, cancelled or interrupted in the middle: what that means for a grant, exchange knows.
                    step = steps.throw(interruption)
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
