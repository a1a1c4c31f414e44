"""What the service sends, as plain values: the calls of a bet (docs/decisions/0010), and requests with their seals."""

from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from game_operator.models.webhooks import DepositCall, RollbackCall, WithdrawCall
from game_operator.protocol.http import Manner


@dataclass(frozen=True, slots=True, kw_only=True)
class BetCalls:
    """
    A bet that may be placed, settled and cancelled; its calls are those of the service.

    *changes* to a call are fields of its class.

    Attributes:
        tx_id: The withdraw's; "" for the one that follows from action and bet.
        rollback_tx_id: As in the profile: ``withdraw`` when a rollback carries its withdraw's tx_id, ``own`` when not.
    """

    player_id: str
    bet_id: str
    wager_cents: int
    round_id: str
    instance_id: str | None = None
    game: str | None = None
    tx_id: str = ""
    action: str = "BET"
    rollback_tx_id: str = "withdraw"

    def withdraw(self, **changes: Any) -> WithdrawCall:  # Any: fields of the call, which checks them
        """Return the call that places it."""
        call = WithdrawCall(
            player_id=self.player_id,
            bet_id=self.bet_id,
            amount_cents=self.wager_cents,
            tx_id=self.tx_id,
            # No round_id: deposit and rollback carry one (spec §6), and so no withdraw has the bytes of a rollback.
            action=self.action,
            instance_id=self.instance_id,
            game=self.game,
        )
        return replace(call, **changes) if changes else call

    def deposit(self, won_cents: int, **changes: Any) -> DepositCall:
        """Return the call that settles it; 0 is a loss."""
        call = DepositCall(
            player_id=self.player_id,
            bet_id=self.bet_id,
            amount_cents=won_cents,
            wager_cents=self.wager_cents,
            won_cents=won_cents,
            round_id=self.round_id,
            instance_id=self.instance_id,
            game=self.game,
        )
        if "amount_cents" in changes:
            changes.setdefault("won_cents", changes["amount_cents"])
        return replace(call, **changes) if changes else call

    def rollback(self, **changes: Any) -> RollbackCall:
        """Return the call that cancels it."""
        own = self.rollback_tx_id == "own"
        call = RollbackCall(
            player_id=self.player_id,
            bet_id=self.bet_id,
            tx_id=f"rollback:bet:{self.bet_id}" if own else self.withdraw().tx_id,
            action=self.action,
            amount_cents=self.wager_cents,
            round_id=self.round_id,
            instance_id=self.instance_id,
            game=self.game,
        )
        return replace(call, **changes) if changes else call

    def jackpot(self, cents: int) -> DepositCall:
        """Return the call that pays a jackpot on top of it."""
        return DepositCall(
            player_id=self.player_id,
            bet_id=self.bet_id,
            amount_cents=cents,
            action="JACKPOT",
            jackpot_id=f"pool:{self.game}",
            round_id=self.round_id,
            instance_id=self.instance_id,
            game=self.game,
        )


#: Whose key signs: a stranger's is one that the wallet never saw.
KeyName: TypeAlias = Literal["service", "stranger", "old", "retired"]
#: How the bytes of a signature are written.
Form: TypeAlias = Literal["url-safe", "url-safe padded", "standard", "standard padded"]


@dataclass(frozen=True, slots=True)
class Seal:
    """
    How a request is signed (assumed, docs/decisions/0011).

    Attributes:
        key: Whose key signs, ``old`` and ``retired`` those of a rotation; None for no signature at all.
        over: The bytes that are signed, in place of the body.
        form: How the signature is written.
        literal: What stands in the header in place of a signature; nothing is signed then.
        times: How often the header stands in the request.
        upper: Whether the header's name is written in capitals.
    """

    key: KeyName | None = "service"
    over: bytes | None = field(default=None, repr=False)
    form: Form = "url-safe"
    literal: str | None = None
    times: int = 1
    upper: bool = False


AS_THE_SERVICE: Final = Seal()
UNSIGNED: Final = Seal(key=None)


@dataclass(frozen=True, slots=True)
class Request:
    """
    One request.

    Attributes:
        title: What it is for, in a few words: a report shows it.
        path: Below the wallet's address.
        body: Its bytes.
        seal: How it is signed.
        method: POST, if nothing else is tried.
        headers: Beside those of every request; a Content-Type here replaces ours.
        manner: How it travels.
        at: Where it goes: ``wallet``; ``second`` for another process of the same wallet; ``elsewhere`` for the wallet,
            from an address that it must not answer.
    """

    title: str
    path: str
    body: bytes
    seal: Seal = AS_THE_SERVICE
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    manner: Manner = Manner.WHOLE
    at: Literal["wallet", "second", "elsewhere"] = "wallet"
