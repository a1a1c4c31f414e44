"""What the service sends, as plain values: the calls of a bet (docs/decisions/0010), and requests with their seals."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from game_operator.models.webhooks import DepositCall, RollbackCall, WithdrawCall


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
        # No round_id: deposit and rollback carry one (spec §6), and so no withdraw has the bytes of a rollback.
        fields = self._fields(amount_cents=self.wager_cents, tx_id=self.tx_id, action=self.action)
        return WithdrawCall(**fields | changes)

    def deposit(self, won_cents: int, **changes: Any) -> DepositCall:
        """Return the call that settles it; 0 is a loss."""
        cents = {"amount_cents": won_cents, "wager_cents": self.wager_cents, "won_cents": won_cents}
        return DepositCall(**self._fields(round_id=self.round_id, **cents) | changes)

    def rollback(self, **changes: Any) -> RollbackCall:
        """Return the call that cancels it."""
        tx_id = f"rollback:bet:{self.bet_id}" if self.rollback_tx_id == "own" else self.withdraw().tx_id
        fields = self._fields(amount_cents=self.wager_cents, tx_id=tx_id, action=self.action, round_id=self.round_id)
        return RollbackCall(**fields | changes)

    def jackpot(self, amount_cents: int) -> DepositCall:
        """Return the call that pays a jackpot on top of it."""
        pool = {"action": "JACKPOT", "jackpot_id": f"pool:{self.game}"}
        return DepositCall(**self._fields(amount_cents=amount_cents, round_id=self.round_id, **pool))

    def _fields(self, **own: Any) -> dict[str, Any]:
        """Return what all its calls have, and what one of them has of its own."""
        shared = {"player_id": self.player_id, "bet_id": self.bet_id}
        return {**shared, "instance_id": self.instance_id, "game": self.game, **own}


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
        header: The header's name; "" for that of the profile.
    """

    key: KeyName | None = "service"
    over: bytes | None = field(default=None, repr=False)
    form: Form = "url-safe"
    literal: str | None = None
    times: int = 1
    upper: bool = False
    header: str = ""


AS_THE_SERVICE: Final = Seal()
UNSIGNED: Final = Seal(key=None)


class Manner(StrEnum):
    """How a request travels to a wallet under test."""

    #: As any client would send it, with any method and headers.
    WHOLE = "whole"
    #: The connection is reset once the request is sent: nobody reads the answer.
    CUT = "cut"
    #: The connection is closed a little later: nobody reads the answer.
    HANG_UP = "hang up"
    #: In chunks, without a Content-Length.
    CHUNKED = "chunked"
    #: In four pieces, with pauses between them.
    SLOW = "slow"
    #: Half of the body, and then nothing; the answer is waited for.
    HALF = "half"
    #: With the method of the request, and after its answer by POST, on the same connection; that answer counts.
    FOLLOWED = "followed"


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
        fresh: Whether it travels over a new connection, so that any process behind the address may serve it.
    """

    title: str
    path: str
    body: bytes
    seal: Seal = AS_THE_SERVICE
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    manner: Manner = Manner.WHOLE
    at: Literal["wallet", "second", "elsewhere"] = "wallet"
    fresh: bool = False
