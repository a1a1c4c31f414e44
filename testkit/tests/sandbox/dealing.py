"""A wallet in process that counts what arrives, a courier that carries to it as a network would, and short plans."""

import asyncio
import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any

from game_operator.codes import BetState
from game_operator.ledger import MemoryLedger
from game_operator.models.webhooks import FreeBet, MovingCall
from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply
from game_operator.protocol.signing import Signature
from game_operator.wallet import Wallet
from game_operator.webhooks import HmacSignature, WebhookHandler, WebhookReceiver
from game_operator_testkit.provider.delivery import Answer, Post, answer_in, unanswered
from game_operator_testkit.provider.faults import Fault, FaultPlan, FaultSwitches
from game_operator_testkit.provider.requests import Request
from game_operator_testkit.sandbox.dealing.balances import BalanceBoard
from game_operator_testkit.sandbox.dealing.carrying import play
from game_operator_testkit.sandbox.dealing.dealer import Dealer
from game_operator_testkit.sandbox.dealing.dealt import Dealt, DealtBet, ServiceState
from game_operator_testkit.sandbox.dealing.deliveries import retry_preset
from game_operator_testkit.sandbox.dealing.plan import (
    BetEnd,
    PlannedBet,
    PlannedClaim,
    PlannedItem,
    PlannedRound,
)

START_MILLIS = 1_772_323_200_000
#: What players open with, in cents.
OPENING_CENTS = 1_000_000
#: Whose secret signs a post with this extra; the service's by default.
SECRETS: Mapping[Fault | None, bytes] = {
    None: b"the service's secret",
    Fault.FORGED: b"a stranger's secret",
    Fault.OLD_KEY: b"the secret from before",
}


class FastKeys:
    """Signs as ``ServiceKeys`` does, a hundred times as fast."""

    def signature(self, request: Request) -> Signature:
        secret = {"stranger": SECRETS[Fault.FORGED], "old": SECRETS[Fault.OLD_KEY]}.get(request.seal.key or "")
        signed = request.body if request.seal.over is None else request.seal.over
        return Signature.of(hmac.digest(secret or SECRETS[None], signed, sha256))


class InProcess:
    """
    A courier to a wallet in this process, and the wallet.

    It loses, delays and doubles as a network does, and counts what really arrives.

    Args:
        handler: The wallet's; a right one over ``ledger`` if None.
        random: Decides how long each way takes, and what is still under way when nobody waits for it; None takes no
            time at all.
        replace: Returns the body that is heard in place of the wallet's answer, or None; called with post and body.
        in_threads: Whether calls at once are at the wallet at once, which so shares commits.
    """

    def __init__(
        self,
        *,
        players: Iterable[str] = ("p1",),
        opening: Mapping[str, int] | None = None,
        handler: Callable[[MemoryLedger], WebhookHandler] | None = None,
        random: Random | None = None,
        profile: Profile | None = None,
        replace: Callable[[Post, bytes], bytes | None] | None = None,
        in_threads: bool = False,
    ) -> None:
        self.opening = dict.fromkeys(players, OPENING_CENTS) if opening is None else dict(opening)
        self.ledger = MemoryLedger(self.opening)
        self.handler = handler(self.ledger) if handler else Wallet(self.ledger, profile=profile)
        self.receiver = WebhookReceiver(
            authenticator=HmacSignature(SECRETS[None]), profile=profile, budget_seconds=1_000
        )
        self.header = (profile or Profile()).signature_header
        self.keys = FastKeys()
        self.random = random
        self.replace = replace
        self.in_threads = in_threads
        #: Every post, in the order of sending, and its signature.
        self.posts: list[tuple[Post, bytes, bytes]] = []
        #: How often each body arrived at the wallet, by path and body.
        self.arrived: Counter[tuple[str, bytes]] = Counter()
        self._late: set[asyncio.Task[bytes]] = set()

    async def post(self, post: Post) -> Answer:
        request = post.request
        body, signature = request.body, self.keys.signature(request)
        self.posts.append((post, body, bytes(signature)))
        await self._pause()
        match post.manner:
            case Fault.REQUEST_LOST:
                return unanswered("request lost")
            case Fault.TIMEOUT | Fault.RESET:
                # The wallet is still at work, or does not even begin before other calls have come and gone.
                task = asyncio.get_running_loop().create_task(self._at_the_wallet(post, body, signature))
                self._late.add(task)
                if self.random is None:
                    await task
                return unanswered(f"{post.manner}")
        answer = await self._at_the_wallet(post, body, signature)
        await self._pause()
        if post.manner is Fault.REPLY_LOST:
            return unanswered("reply lost")
        return answer_in(post, HttpReply(200, {}, answer))

    async def settle(self) -> None:
        """Wait for what is still under way."""
        await asyncio.gather(*self._late)

    async def _at_the_wallet(self, post: Post, body: bytes, signature: bytes) -> bytes:
        if post.manner in {Fault.TIMEOUT, Fault.RESET}:
            # Nobody takes a call back: what is still on its way when all is played arrives all the same.
            with suppress(asyncio.CancelledError):
                await self._pause(10)
        self.arrived[post.path, body] += 1
        call = partial(self.receiver.handle, post.path, {self.header: signature.decode()}, body, self.handler)
        reply = await asyncio.to_thread(call) if self.in_threads else call()
        replaced = None if self.replace is None else self.replace(post, reply.body)
        return reply.body if replaced is None else replaced

    async def _pause(self, most: int = 4) -> None:
        for _ in range(self.random.randrange(most) if self.random is not None else 0):
            await asyncio.sleep(0)

    def arrivals(self, call: MovingCall) -> int:
        """Return how often *call* arrived by itself."""
        post = Post(call)
        return self.arrived[post.path, post.signed]

    def code_of(self, bet_id: str) -> str | None:
        """Return the wallet's state of a bet, None for one that it never saw."""
        record = self.ledger.bet(bet_id)
        return None if record is None else str(record.state)


def bet(number: int = 1, end: BetEnd = BetEnd.CLOSED, **changes: Any) -> PlannedBet:  # Any: fields of PlannedBet.
    settings: dict[str, Any] = {
        "bet_id": f"b{number}",
        "player_id": "p1",
        "wager_cents": 500,
        "end": end,
        "won_cents": 1_250 if end is BetEnd.CLOSED else 0,
        "at_millis": START_MILLIS,
        "ends_at_millis": START_MILLIS + 2_000,
        "round_id": "r1",
        "instance_id": "i1",
        "game": "crash",
    }
    return PlannedBet(**settings | changes)


def round_of(*bets: PlannedBet, number: int = 1) -> PlannedRound:
    return PlannedRound(
        round_id=f"r{number}",
        round_no=number,
        instance_id="i1",
        game="crash",
        at_millis=min(each.at_millis for each in bets),
        bets=tuple(replace(each, round_id=f"r{number}") for each in bets),
    )


def claim(number: int = 1, player_id: str = "p1", won: tuple[int, ...] = (300, 0, 75)) -> PlannedClaim:
    return PlannedClaim(
        free_bet_id=f"f{number}",
        player_id=player_id,
        instance_id="i1",
        game="crash",
        round_id=f"free-{number}",
        at_millis=START_MILLIS,
        bets=tuple(
            FreeBet(id=f"f{number}-{i}", round_id=f"free-{number}", wager_cents=100, won_cents=cents)
            for i, cents in enumerate(won)
        ),
    )


class Listened(BalanceBoard):
    """Keeps what a dealer reports to a board of balances."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[str, int]] = []
        self.ended: list[tuple[str, int | None]] = []
        self.heard: list[tuple[str, int, bool]] = []

    def begin(self, player_id: str, may_move_cents: int = 0, about: Dealt | None = None) -> None:
        super().begin(player_id, may_move_cents, about)
        self.begun.append(("" if about is None else about.key, may_move_cents))

    def reported(self, player_id: str, balance_cents: int, *, repeated: bool = False, number: int = 0) -> None:
        super().reported(player_id, balance_cents, repeated=repeated, number=number)
        self.heard.append((player_id, balance_cents, repeated))

    def end(self, player_id: str, moved_cents: int | None = 0, about: Dealt | None = None) -> None:
        super().end(player_id, moved_cents, about)
        self.ended.append(("" if about is None else about.key, moved_cents))


def faults(*names: Fault, nth: Mapping[Fault, int] | None = None, rate: float = 1.0) -> FaultPlan:
    return FaultPlan(dict.fromkeys(names, rate), dict(nth or {}))


def deal(
    courier: InProcess,
    *items: PlannedItem,
    plan: FaultPlan | None = None,
    retries: str = "three",
    concurrency: int = 1,
    **options: Any,  # Any: those of Dealer.
) -> Dealer:
    """Play *items* to their end, and return the dealer."""
    dealer = Dealer(items, faults=FaultSwitches(plan or FaultPlan()), retries=retry_preset(retries), **options)

    async def everything() -> None:
        await play(dealer, courier.post, concurrency=concurrency)
        await courier.settle()

    asyncio.run(everything())
    return dealer


_RIGHT: Mapping[ServiceState, set[BetState | None]] = {
    ServiceState.OPEN: {BetState.OPEN},
    ServiceState.CLOSED: {BetState.CLOSED},
    ServiceState.ROLLED_BACK: {BetState.ROLLED_BACK, BetState.TOMBSTONE, BetState.DECLINED, None},
    ServiceState.REFUSED: {BetState.DECLINED, None},
}


def disagreements(dealer: Dealer, courier: InProcess) -> list[str]:
    """Return what service and wallet do not agree on: bets by their states, players by their balances."""
    wrong: list[str] = []
    due = dict(courier.opening)
    for dealt in dealer.dealt:
        if dealt.player_id in due:
            due[dealt.player_id] += dealt.moved_cents
        if isinstance(dealt, DealtBet):
            record = courier.ledger.bet(dealt.key)
            state, won = (None, None) if record is None else (record.state, record.won_cents)
            if state not in _RIGHT.get(dealt.state, set()):
                wrong.append(f"{dealt.key}: {dealt.state}, and the wallet has {state}")
            elif dealt.state is ServiceState.CLOSED and won != dealt.planned.won_cents:
                wrong.append(f"{dealt.key}: won {dealt.planned.won_cents}, and the wallet has {won}")
    wrong += [
        f"{player_id}: {cents} is due, and the wallet has {courier.ledger.balance(player_id)}"
        for player_id, cents in due.items()
        if courier.ledger.balance(player_id) != cents
    ]
    return wrong


def problems(dealer: Dealer) -> list[str]:
    return [f"{dealt.key}: {problem}" for dealt in dealer.dealt for problem in dealt.problems]
