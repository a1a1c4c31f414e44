"""The async client: it performs the steps of ``exchange`` over httpx, and decides nothing itself."""

import time
from typing import Self, TypeVar

import anyio

from game_operator import models
from game_operator.client.base import BaseClient
from game_operator.protocol import operations
from game_operator.protocol.exchange import Reply, Send, Sign, Signed, TransportFailed, Waited
from game_operator.protocol.operations import Operation
from game_operator.signers.keys import LocalSigner
from game_operator.transport.async_ import AsyncHttpClient, AsyncWire

T = TypeVar("T")


class AsyncOperatorClient(BaseClient[AsyncHttpClient, AsyncWire]):
    """
    The same as ``OperatorClient``, awaited, on asyncio or trio (spec §4.2, §5).

    The arguments are those of ``OperatorClient``; *private_key* may be an ``AsyncSigner`` too, and *http_client* is an
    ``httpx.AsyncClient`` or ``httpx2.AsyncClient``. *timeout* and *deadline* are exact. A signer that is not async and
    not a key of this process is run in a worker thread. The client belongs to the event loop that uses it first.
    """

    _make_wire = AsyncWire

    async def fetch_games(self) -> "list[models.GameInfo]":
        """Return all games and instances; see ``OperatorClient.fetch_games`` (spec §4.2)."""
        return await self.perform(operations.fetch_games(self._settings.operator_id))

    async def fetch_bet(self, bet_id: str) -> "models.AnyBet":
        """Return the bet in its state; see ``OperatorClient.fetch_bet`` (spec §2.4, §4.2)."""
        return await self.perform(operations.fetch_bet(self._settings.operator_id, bet_id))

    async def fetch_round_bets(
        self, *, instance_id: str, round_id: str | None = None, round_no: int | None = None
    ) -> "models.AnyRound":
        """Return a round with its bets; see ``OperatorClient.fetch_round_bets`` (spec §2.8, §4.2)."""
        operation = operations.fetch_round_bets(instance_id=instance_id, round_id=round_id, round_no=round_no)
        return await self.perform(operation)

    async def grant_free_bet(
        self,
        *,
        player_id: str,
        instance_id: str,
        count: int,
        wager_amount_cents: int,
        expire_duration_millis: int,
        reference_id: str,
    ) -> "models.GrantAccepted":
        """Grant free bets; see ``OperatorClient.grant_free_bet`` for limits, units and errors (spec §2.2, §8)."""
        grant = models.GrantRequest.model_construct(
            player_id=player_id,
            instance_id=instance_id,
            count=count,
            wager_amount_cents=wager_amount_cents,
            expire_duration_millis=expire_duration_millis,
            reference_id=reference_id,
        )
        return await self.perform(operations.grant_free_bet(grant))

    async def aclose(self) -> None:
        """Close the connections, unless they are yours or another client's."""
        if self._owns_wire:
            await self._wire.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    async def perform(self, operation: Operation[T]) -> T:
        """Make the call that *operation* describes, as ``OperatorClient.perform`` does."""
        steps = self._steps(operation)
        step = next(steps)
        reply: Reply
        try:
            while True:
                try:
                    if isinstance(step, Send):
                        began = time.monotonic()
                        reply = self._answer(step, await self._wire.send(step), began)
                    elif isinstance(step, Sign):
                        reply = await self._sign(step)
                    else:
                        await anyio.sleep(step.seconds)
                        reply = Waited(time.monotonic())
                except BaseException as interruption:
                    # Closed, cancelled or interrupted in the middle: what that means for a grant, exchange knows.
                    step = steps.throw(interruption)
                else:
                    step = steps.send(reply)
        except StopIteration as finished:
            result: T = finished.value
            return result

    async def _sign(self, step: Sign) -> Signed:
        if isinstance(self._signatures.signer, LocalSigner):
            return Signed(self._signatures.sign(step.message), time.monotonic())
        with anyio.move_on_after(step.timeout_seconds):
            return Signed(await self._signatures.sign_async(step.message), time.monotonic())
        late = TransportFailed("The signer did not answer before the deadline", sent=False, timed_out=True)
        return Signed(late, time.monotonic())
