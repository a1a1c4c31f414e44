"""Our own wallets under certification, on a ledger of any kind, with all the levers that a scenario may ask for."""

import time
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger import Outcome, SqlLedger, Terms
from game_operator.models.webhooks import WebhookCall, WithdrawCall
from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply
from game_operator.wallet import AsyncWallet, Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver
from game_operator_testkit.certifier import Report, Supplies
from testkit.tests.certifier.harness import INSTANCE, OTHER, PLAYER, certified_by, old_key, retired_key, service_key
from tests.support.ledgers import AnyLedger, AsyncInDatabase, InMemory
from tests.support.retention import drop

__all__ = ["Ours", "certified_ours"]

_OPENING = Decimal("1000.00")
_DAY_MILLIS = 86_400_000


class _Levers:
    """A ledger that fails on demand, and may be closed and opened again below."""

    def __init__(self, ours: "Ours") -> None:
        self._ours = ours

    def apply(self, call: WebhookCall, *, terms: Terms) -> Outcome:
        outcome: Outcome = self._ours.working.apply(call, terms=terms)
        return outcome

    def keep_anomaly(self, *arguments: Any, **named: Any) -> Any:
        return self._ours.working.keep_anomaly(*arguments, **named)


class _AsyncLevers(_Levers):
    """The same, awaited."""

    async def apply(self, call: WebhookCall, *, terms: Terms) -> Outcome:  # type: ignore[override]  # It is the kind that an AsyncWallet asks for.
        outcome: Outcome = await self._ours.working.apply(call, terms=terms)
        return outcome


class Ours:
    """
    A Wallet or AsyncWallet behind a receiver that knows its instances.

    Args:
        ledger: Its ledger; an AsyncWallet is made for one that is awaited.
        profile: What is assumed of it.
    """

    def __init__(self, ledger: AnyLedger, profile: Profile) -> None:
        self.ledger = ledger
        self.profile = profile
        self.blocked: set[str] = set()
        self.is_broken = False
        self._trusting, self._distrusting = self._behind(service_key, old_key), self._behind(retired_key)
        self.receiver = self._trusting
        options: dict[str, Any] = {"profile": profile, "may_bet": self._may_bet}
        levers: Any = _AsyncLevers(self) if isinstance(ledger, AsyncInDatabase) else _Levers(self)
        self._wallet: Any = (AsyncWallet if isinstance(ledger, AsyncInDatabase) else Wallet)(levers, **options)

    @property
    def working(self) -> Any:
        """The ledger, unless it is broken. Any: each kind has methods of its own."""
        if self.is_broken:
            raise LedgerUnavailableError("the test pulled the plug; put it in again")
        return self._inner

    @property
    def _inner(self) -> Any:  # Any: see above.
        return vars(self.ledger)["ledger"]

    def deliver(self, path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        """Answer a webhook."""
        if isinstance(self.ledger, AsyncInDatabase):
            return self.ledger.run(self.receiver.handle_async(path, headers, body, self._wallet))
        return self.receiver.handle(path, headers, body, self._wallet)

    def open_account(self, player_id: str, cents: int) -> None:
        self.ledger.open_account(player_id, Decimal(cents).scaleb(-2))

    def supplies(self, second: "Ours") -> Supplies:
        """Return all that can be done to this wallet; *second* is one on the same database."""
        return Supplies(
            block=self.blocked.add,
            unblock=self.blocked.discard,
            open_account=self.open_account,
            fail=lambda: self._break(True),
            recover=lambda: self._break(False),
            restart=self.ledger.reopen,
            distrust=lambda: self._receive_by(self._distrusting),
            trust=lambda: self._receive_by(self._trusting),
            later=self._drop_as_if_later,
            stored_cents=self.ledger.balance,
            second_url=second.deliver,
            old_key=old_key(),
            retired_key=retired_key(),
            foreign_instance_id="instance-of-another-operator",
            random_operations=100,
        )

    def _may_bet(self, call: WithdrawCall, *_: object) -> str | None:
        return "PLAYER_BLOCKED" if call.player_id in self.blocked else None

    def _behind(self, *keys: Callable[[], Any]) -> WebhookReceiver:
        signature = RsaSignature([key().public_key() for key in keys])
        return WebhookReceiver(authenticator=signature, profile=self.profile, instances={INSTANCE})

    def _break(self, is_broken: bool) -> None:
        self.is_broken = is_broken

    def _receive_by(self, receiver: WebhookReceiver) -> None:
        self.receiver = receiver

    def _drop_as_if_later(self, days: int) -> None:
        """Drop what an operator would have dropped after so many days."""
        if isinstance(self.ledger, InMemory):
            return
        with SqlLedger(self._inner._url) as ledger:
            drop(ledger, time.time_ns() // 1_000_000 + days * _DAY_MILLIS)


def certified_ours(
    ledger: AnyLedger,
    profile: Profile,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    *,
    assumed: Profile | None = None,
) -> Report:
    """Return what the certifier finds of our wallet on *ledger*, all supplied; *assumed* is not the wallet's own."""
    ours = Ours(ledger, profile)
    for player_id in (PLAYER, OTHER):
        ledger.open_account(player_id, _OPENING)
    other = ledger if isinstance(ledger, InMemory) else ledger.another()
    try:
        supplies = ours.supplies(Ours(other, profile))
        return certified_by(ours.deliver, profile=assumed or profile, only=only, skip=skip, supplies=supplies)
    finally:
        if other is not ledger:
            other.close()
