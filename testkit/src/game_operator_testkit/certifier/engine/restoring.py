"""Puts the players' balances back to what they were, as far as the wallet lets it."""

from dataclasses import replace
from typing import Final, Literal

from game_operator_testkit.certifier.engine.balances import MOST_BALANCE_CENTS
from game_operator_testkit.certifier.engine.calls import Player
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.provider.delivery import Carried

#: So often a balance is asked for that is not answered by a reply, which may be by chance.
_MOST_FAILURES: Final = 3
#: A balance that cannot be brought back at once is brought back in at most this many pieces.
_MOST_PIECES: Final = 80
#: This many bets are tried, until one is still open.
_MOST_CANCELLED: Final = 20


def put_back(at: Stage) -> None:
    """Bring both balances to where they were; judge nothing."""
    at.cancel_in_doubt()
    for player in (at.player, at.other):
        piece_cents = left_cents = MOST_BALANCE_CENTS
        for number in range(_MOST_PIECES):
            cents = current_cents(at, player)
            if cents is None:
                break
            more = int((cents - player.opening_cents) / at.observed.scale)
            if not number:
                # A wallet that does not say what it has must not be led further and further away.
                left_cents = min(2 * abs(more), MOST_BALANCE_CENTS)
            if not more or abs(more) > left_cents or not piece_cents:
                break
            part = min(abs(more), piece_cents)
            if _taken(at, player, part) if more > 0 else _given(at, player, part):
                left_cents -= part
            elif at.observed.last is not None and at.observed.last[0].timed_out:
                break  # Each piece would take as long as a timeout.
            else:
                # The wallet may limit what a bet can be.
                piece_cents = part // 2


def current_cents(at: Stage, player: Player) -> int | None:
    """Return what the player has, by a balance check; where those are behind, by a small bet or a later check."""
    if at.observed.is_behind:
        if (cents := at.cents_by_probe(player)) is not None:
            return cents
        at.pause(2 * at.observed.lags_seconds)
    at.pause(2 * at.observed.late_seconds)
    heard = balance_reply(at, player)
    return heard.balance_cents if heard.succeeded else None


def balance_reply(at: Stage, player: Player, place: Literal["wallet", "second"] = "wallet") -> Carried:
    """Ask one of the wallet's processes for a balance, again if no reply comes; judge nothing."""
    for _ in range(_MOST_FAILURES):
        heard = at.send(replace(at.balance_request(f"the balance of {player.id}", player), at=place))
        if heard.reply is not None or not heard.status:
            break
    return heard


def _taken(at: Stage, player: Player, cents: int) -> bool:
    """Take *cents* from the player by a loss; of less than the least wager, the rest of one is won back."""
    least = at.observed.wager_cents or 0
    return _played(at, player, cents, 0) or (least > cents and _played(at, player, least, least - cents))


def _given(at: Stage, player: Player, cents: int) -> bool:
    """Give the player *cents* by a jackpot, a win or a refund; return whether the wallet paid anything."""
    jackpots = (at.request(each, "what brings the balance back") for each in at.jackpots(cents, player))
    placed = [bet for bet in at.bets[::-1] if bet.player_id == player.id][:_MOST_CANCELLED]
    refunds = (at.request(bet.rollback(), "what gives a wager back") for bet in placed)
    if any(at.send(each).succeeded for each in jackpots) or _played(at, player, 1, cents + 1):
        return True
    # A player without money cannot place a bet, so the last open one is cancelled.
    return any(at.send(each).succeeded for each in refunds)


def _played(at: Stage, player: Player, wager_cents: int, won_cents: int) -> bool:
    bet = at.bet(player, wager_cents)
    placed = at.send(at.request(bet.withdraw(), "what brings the balance back"))
    if placed.succeeded:
        at.send(at.request(bet.deposit(won_cents), "its end"))
    return placed.succeeded
