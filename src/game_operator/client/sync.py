"""The sync client: it performs the steps of ``exchange`` over httpx, and decides nothing itself."""

import time
from typing import Self, TypeVar

from game_operator import models
from game_operator.client.base import BaseClient
from game_operator.protocol import operations
from game_operator.protocol.exchange import Reply, Send, Sign, Signed, Waited
from game_operator.protocol.operations import Operation
from game_operator.transport.sync import SyncHttpClient, Wire

T = TypeVar("T")


class OperatorClient(BaseClient[SyncHttpClient, Wire]):
    """
    The Operator API, typed and signed (spec §4.2, §5). Threads may share one client.

    Args:
        base_url: Where the service lives, without ``/api/v0.2``; plain http only to this machine.
        operator_id: The id the provider gave you.
        private_key: A path, a PEM as str or bytes, an ``RSAPrivateKey``, or any ``Signer``.
        passphrase: For an encrypted PEM.
        timeout: Seconds for each attempt, from connecting to the last byte of the answer.
        deadline: Seconds for the whole call, repeats and waits included; None for no limit. Both are exact, through
            every kind of proxy. With your own *http_client* they are checked between the reads of a body alone.
        retries: How often a call is repeated, or a ``RetryPolicy``.
        proxy: The address of an http, https or socks5 proxy (extra ``socks``), with user and password if it has them.
        ssl_context: TLS settings for a private CA or a client certificate, when *http_client* is not given.
        trust_env: Whether proxy variables and SSL_CERT_FILE count, when *http_client* is not given.
        http_client: Your own ``httpx.Client`` or ``httpx2.Client``, for mocks, HTTP/2 and unusual transports; each call
            says ``Connection: close``, and it is never closed here.
        on_exchange: Called with an ``Exchange`` after each attempt; what it raises is logged, and changes nothing.
        read_limits: How many bytes of an answer are read.
        allow_insecure_http: Whether plain http may go to another machine.
        telemetry: A ``game_operator.telemetry.Telemetry``, for spans and metrics of the calls (extra ``otel``).

    Raises:
        ConfigurationError: A setting cannot work; ``SigningKeyError`` if it is the key.
        TypeError: An argument is of another kind.
    """

    _make_wire = Wire
    _takes_async_signer = False

    def fetch_games(self) -> "list[models.GameInfo]":
        """
        Return all games and instances available to the operator (spec §4.2).

        Raises:
            ApiError: The service said no.
            TransportError: The service did not answer.
        """
        return self.perform(operations.fetch_games(self._settings.operator_id))

    def fetch_bet(self, bet_id: str) -> "models.AnyBet":
        """
        Return the bet in its state, or ``BetNotFound`` (spec §2.4, §4.2).

        A bet older than 90 days is not found either. ``wager`` and ``won`` are in cents.

        Raises:
            ApiError: The service said no, or *bet_id* is "", "." or "..".
            TransportError: The service did not answer.
        """
        return self.perform(operations.fetch_bet(self._settings.operator_id, bet_id))

    def fetch_round_bets(
        self, *, instance_id: str, round_id: str | None = None, round_no: int | None = None
    ) -> "models.AnyRound":
        """
        Return a round with its bets, or ``RoundNotFound`` (spec §2.8, §4.2).

        Given both *round_id* and *round_no*, both are sent and the service uses the id.

        Raises:
            ApiError: The service said no, or neither *round_id* nor *round_no* is given.
            TransportError: The service did not answer.
        """
        operation = operations.fetch_round_bets(instance_id=instance_id, round_id=round_id, round_no=round_no)
        return self.perform(operation)

    def grant_free_bet(
        self,
        *,
        player_id: str,
        instance_id: str,
        count: int,
        wager_amount_cents: int,
        expire_duration_millis: int,
        reference_id: str,
    ) -> "models.GrantAccepted":
        """
        Grant a player *count* free bets of *wager_amount_cents* each, and return their id (spec §2.2, §4.2, §8).

        Every exception but ``OutcomeUnknownError`` means that nothing was granted. A repeat is made with the very same
        bytes.

        Args:
            player_id: At most 100 characters.
            instance_id: The game instance the free bets are for.
            count: How many, 1 to 50.
            wager_amount_cents: The stake of each, 1 to 1,000,000 cents.
            expire_duration_millis: How long they can be played, 1 to 2,592,000,000 milliseconds (30 days).
            reference_id: At most 100 characters, yours, unique for the instance.

        Raises:
            FreeBetRejectedError: The service refuses, or would: see ``error_code``.
            OutcomeUnknownError: The free bets may or may not have been granted. With the ``error_code``
                DUPLICATE_REFERENCE_ID, count them as granted.
            ApiError: The service said no in another way.
            TransportError: The request never left.
        """
        grant = models.GrantRequest.model_construct(
            player_id=player_id,
            instance_id=instance_id,
            count=count,
            wager_amount_cents=wager_amount_cents,
            expire_duration_millis=expire_duration_millis,
            reference_id=reference_id,
        )
        return self.perform(operations.grant_free_bet(grant))

    def close(self) -> None:
        """Close the connections, unless they belong to your ``http_client`` or to another client."""
        if self._owns_wire:
            self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def perform(self, operation: Operation[T]) -> T:
        """
        Make the call that *operation* describes, with its retries and within its deadline, and return what it reads.

        The four calls are made by it. ``game_operator.protocol.operations`` describes them; one of them with another
        ``parse`` reads the answer in another way.

        Raises:
            ApiError, TransportError: As the four calls do.
        """
        steps = self._steps(operation)
        step = next(steps)
        reply: Reply
        try:
            while True:
                try:
                    if isinstance(step, Send):
                        began = time.monotonic()
                        result = self._wire.send(step, give_up_seconds=began + step.timeout_seconds)
                        reply = self._answer(step, result, began)
                    elif isinstance(step, Sign):
                        reply = Signed(self._signatures.sign(step.message), time.monotonic())
                    else:
                        time.sleep(step.seconds)
                        reply = Waited(time.monotonic())
                except BaseException as interruption:
                    # Closed, cancelled or interrupted in the middle: what that means for a grant, exchange knows.
                    step = steps.throw(interruption)
                else:
                    step = steps.send(reply)
        except StopIteration as finished:
            value: T = finished.value
            return value
