"""How both balances are brought to what they were before a scenario: by bets that are lost or won."""

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

from game_operator.certify.engine.calls import Player
from game_operator.certify.engine.stage import MOST_BALANCE_CENTS, Judging, Stage
from game_operator.certify.engine.steps import Heard, Step

_T = TypeVar("_T")
_Part: TypeAlias = Generator[Step, list[Heard], _T]

#: In so many pieces a balance is brought back, if it is not at once.
_MOST_PIECES: Final = 12
#: So many bets are looked through for one that is open still.
_MOST_CANCELLED: Final = 20


def put_back(at: Stage) -> Judging:
    """Bring both balances to where they were; judge nothing."""
    for player in (at.player, at.other):
        piece_cents = MOST_BALANCE_CENTS
        for _ in range(_MOST_PIECES):
            more = yield from _more_than_before(at, player)
            if more is None:
                return
            if not more or not piece_cents:
                break
            part = min(abs(more), piece_cents)
            if not (yield from (_played(at, player, part, 0) if more > 0 else _given(at, player, part))):
                # The wallet may limit what a bet can be.
                piece_cents = part // 4


def _more_than_before(at: Stage, player: Player) -> _Part[int | None]:
    """Return how many cents the player has more than before; 0 if nobody can say, None if nobody answers."""
    heard = yield from at.send(at.balance_request("the balance afterwards", player))
    if heard.timed_out:
        return None
    if heard.balance_cents is None or not heard.succeeded:
        return 0
    more = heard.balance_cents - player.opening_cents
    return more if abs(more) <= MOST_BALANCE_CENTS else 0


def _given(at: Stage, player: Player, cents: int) -> _Part[bool]:
    """Give the player *cents* by a jackpot, a win or a refund; return whether the wallet paid anything."""
    for jackpot in at.jackpots(cents, player=player):
        if (yield from at.send(at.request(jackpot, "what brings the balance back"))).succeeded:
            return True
    return (yield from _played(at, player, 1, cents + 1)) or (yield from _cancelled_one(at, player))


def _played(at: Stage, player: Player, wager_cents: int, won_cents: int) -> _Part[bool]:
    bet = at.bet(player, wager_cents)
    placed = yield from at.send(at.request(bet.withdraw(), "what brings the balance back"))
    if placed.succeeded:
        yield from at.send(at.request(bet.deposit(won_cents), "its end"))
    return placed.succeeded


def _cancelled_one(at: Stage, player: Player) -> _Part[bool]:
    """Cancel the last open bet, for a player without money can place none. Return whether one was cancelled."""
    for bet in at.bets_of(player)[:_MOST_CANCELLED]:
        if (yield from at.send(at.request(bet.rollback(), "what gives a wager back"))).succeeded:
            return True
    return False
