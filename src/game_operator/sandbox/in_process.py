"""
The sandbox without a socket: clients ask it, and it plays rounds against a wallet, all in the caller's own process.

What goes to and fro is byte for byte what would go over HTTP, signatures included. There is no network that could be
slow or cut off: the faults ``timeout``, ``reset`` and ``slow`` each lose the reply here, after the wallet has acted.
"""

import inspect
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import httpx

from game_operator.errors import ConfigurationError
from game_operator.models import BetConfig, ClosedBet, GameInfo, GameInstance, OpenBet, RolledBackBet
from game_operator.profile import Profile
from game_operator.protocol.http import HttpResponse
from game_operator.provider.delivery import Answer, Post, heard
from game_operator.provider.faults import Fault
from game_operator.provider.in_process import (
    Begun,
    Deliver,
    OwnLoop,
    WalletInProcess,
    a_loop_runs_here,
    answer_of,
    delivery_to,
)
from game_operator.provider.keys import ServiceKeys, ThrowAwayKeys
from game_operator.sandbox.base import SandboxBase
from game_operator.sandbox.dealing.plan import PlannedItem
from game_operator.sandbox.in_process_transport import InProcessTransport
from game_operator.sandbox.service.state import House, PlayedRound
from game_operator.webhooks.authenticators import RsaSignature
from game_operator.webhooks.receiver import WebhookReceiver

if TYPE_CHECKING:
    from game_operator.client.async_ import AsyncOperatorClient
    from game_operator.client.sync import OperatorClient
    from game_operator.provider.delivery import Delivery

# Pydantic makes a model ready when it is first used, which takes longer than all the rest of a sandbox. Here it is part
# of the import, and no test pays more than another.
for _model in (BetConfig, GameInstance, GameInfo, OpenBet, ClosedBet, RolledBackBet):
    _model.model_rebuild()

#: Why no reply is heard.
_UNHEARD: Final = {
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
        profile: What is assumed of the wallet: the signature's header, and how a wallet that is a handler reads calls.
        keys: Keys to share with other sandboxes; None makes others, which takes a good part of a second.
    """

    #: What clients take for the service's address; no name is ever looked up.
    base_url: Final = "http://sandbox.localhost"

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
        super().__init__(
            operator_id,
            keys.operator,
            lambda: keys.service,
            seed=seed,
            clock=clock or (lambda: time.time_ns() // 1_000_000),
            profile=profile,
        )
        #: Answers in place of a network: for an ``httpx.Client`` or ``httpx.AsyncClient`` of your own.
        self.transport = InProcessTransport(self.house, self._clock)
        self._wallet: WalletInProcess | None = None
        self._deliver: Deliver | None = None
        self._trusted: tuple[ServiceKeys, WebhookReceiver] | None = None
        self._loop = OwnLoop()

    def client(self, **options: Any) -> "OperatorClient":
        """Return a client of this sandbox; *options* are those of ``OperatorClient``."""
        from game_operator.client.sync import OperatorClient

        # Proxy variables do not count: whatever they name, nothing leaves this process.
        http_client = httpx.Client(transport=self.transport, trust_env=False)
        options = {"http_client": http_client} | options
        return OperatorClient(self.base_url, self.operator_id, self._own_key(), **options)

    def async_client(self, **options: Any) -> "AsyncOperatorClient":
        """Return an async client of this sandbox; see ``client``."""
        from game_operator.client.async_ import AsyncOperatorClient

        http_client = httpx.AsyncClient(transport=self.transport, trust_env=False)
        options = {"http_client": http_client} | options
        return AsyncOperatorClient(self.base_url, self.operator_id, self._own_key(), **options)

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

    def play_round(
        self,
        *,
        player_id: str,
        wager_cents: int,
        won_cents: int | None = None,
        cancel: bool = False,
        instance_id: str | None = None,
    ) -> PlayedRound:
        """
        Play a round of one bet against the wallet: withdraw, then deposit or rollback (spec §3).

        A call that is not answered definitely is repeated at once: the hours that a service would wait are simulated.
        A wallet that is async is awaited on an event loop of this sandbox's own; in an async test await
        ``play_round_async``. What a wallet that is no handler raises passes through.

        Args:
            player_id: Who bets.
            wager_cents: The wager, within the limits of the instance.
            won_cents: What is won, 0 for a loss; None leaves it to the game's rules.
            cancel: Cancel the bet instead of settling it.
            instance_id: Where; ``self.instance_id`` if None.

        Raises:
            ConfigurationError: There is no wallet, it is async and so is the caller, or the round cannot be played.
        """
        deliver = self._ready()
        planned = self.house.planner.round(
            player_id=player_id, wager_cents=wager_cents, won_cents=won_cents, cancel=cancel, instance_id=instance_id
        )
        return self._played(planned, deliver)

    async def play_round_async(
        self,
        *,
        player_id: str,
        wager_cents: int,
        won_cents: int | None = None,
        cancel: bool = False,
        instance_id: str | None = None,
    ) -> PlayedRound:
        """Play a round as ``play_round`` does, on the caller's event loop; the wallet may be sync or async."""
        deliver = self._ready()
        planned = self.house.planner.round(
            player_id=player_id, wager_cents=wager_cents, won_cents=won_cents, cancel=cancel, instance_id=instance_id
        )
        return await self._played_async(planned, deliver)

    def claim_free_bets(self, free_bet_id: str) -> PlayedRound:
        """
        Play the free bets of a grant, and claim their winnings by a deposit of action FREE_BET_CLAIM.

        Raises:
            ConfigurationError: As for ``play_round``; or there is no such grant, or none any more.
        """
        deliver = self._ready()
        return self._played(self.house.planner.claim(free_bet_id), deliver)

    async def claim_free_bets_async(self, free_bet_id: str) -> PlayedRound:
        """Claim as ``claim_free_bets`` does, on the caller's event loop."""
        deliver = self._ready()
        return await self._played_async(self.house.planner.claim(free_bet_id), deliver)

    def close(self) -> None:
        """Close the event loop, if an async wallet needed one."""
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"InProcessSandbox({self.operator_id!r})"

    def _ready(self) -> Deliver:
        if self._deliver is None:
            raise ConfigurationError("The sandbox knows no wallet. Set its attribute wallet to play rounds.")
        return self._deliver

    def _receiver(self) -> WebhookReceiver:
        """Return a receiver that trusts the service's key of now, as if every rotation had been told."""
        keys = self.house.keys
        if self._trusted is None or self._trusted[0] is not keys:
            signature = RsaSignature(keys.current.public_key_pem())
            self._trusted = keys, WebhookReceiver(authenticator=signature, profile=self._profile)
        return self._trusted[1]

    def _played(self, item: PlannedItem, deliver: Deliver) -> PlayedRound:
        play = _Play(self.house, item, self._profile.signature_header)
        with play as parcels:
            for parcel in parcels:
                parcel.answer = answer_of(self._awaited(parcel.delivered_to(deliver)))
        return play.result

    async def _played_async(self, item: PlannedItem, deliver: Deliver) -> PlayedRound:
        play = _Play(self.house, item, self._profile.signature_header)
        with play as parcels:
            for parcel in parcels:
                response = parcel.delivered_to(deliver)
                parcel.answer = answer_of(await response if inspect.isawaitable(response) else response)
        return play.result

    def _awaited(self, response: Any) -> Any:
        """Return *response*, or what comes of it if it must be awaited."""
        if not inspect.isawaitable(response):
            return response
        if a_loop_runs_here():
            if inspect.iscoroutine(response):
                response.close()
            raise ConfigurationError(
                "This wallet is async, and so is whoever plays. Await play_round_async or claim_free_bets_async."
            )
        return self._loop.result_of(response)


class _Parcel(Begun):
    """A request on its way; *answer* is what the wallet gave, None as long as it gave none."""

    answer: HttpResponse | None = None


class _Play:
    """One item of a plan, played: within its block it says what is to be delivered; afterwards it has the result."""

    result: PlayedRound

    def __init__(self, house: House, item: PlannedItem, header: str) -> None:
        self._house = house
        self._item = item
        self._header = header
        self._dealer = house.dealer(item)
        self._deliveries: list[Delivery] = []

    def __enter__(self) -> Iterator[_Parcel]:
        """Return the parcels, each of which must have its answer before the next is asked for."""
        return self._parcels()

    def __exit__(self, *raised: object) -> None:
        self.result = self._house.played(self._item, self._dealer, self._deliveries)

    def _parcels(self) -> Iterator[_Parcel]:
        while (order := self._dealer.next()) is not None:
            answers = []
            for post in order.posts:
                parcel = self._packed(post)
                if post.manner is not Fault.REQUEST_LOST:
                    yield parcel
                answers.append(self._heard(post, parcel))
            self._dealer.answered(order, answers)

    def _packed(self, post: Post) -> _Parcel:
        request = post.request
        return _Parcel(request, self._house.keys.headers(request, self._header))

    def _heard(self, post: Post, parcel: _Parcel) -> tuple[Answer, ...]:
        carried = parcel.carried(parcel.answer, _UNHEARD.get(post.manner, "") if post.manner else "")
        self._house.saw(post, carried)
        if (delivery := carried.delivery) is not None:
            self._deliveries.append(delivery)
        return heard(post, carried)
