"""
Where a wrong balance came from: the call that first showed it, and which later calls added to the difference.

A wallet that once moved too much reports a wrong balance from then on, so of many only the first of each difference
shows a mistake.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from game_operator_testkit.sandbox.dealing.balances import PlayerBalance, ReportedBalance
from game_operator_testkit.sandbox.service.exchange_log import Exchange

if TYPE_CHECKING:
    from game_operator_testkit.sandbox.server import Sandbox


@dataclass(frozen=True, slots=True)
class WrongBalance:
    """
    A player whose balance is wrong, and where that began.

    Attributes:
        player: The player.
        call: The call that showed it first; None if it is no longer in the live log.
        repeat_of: The first delivery of the same call, if *call* is a repeat; 0 otherwise.
        others: The numbers of later calls that show mistakes of their own.
    """

    player: PlayerBalance
    call: Exchange | None
    repeat_of: int
    others: Sequence[int]


def wrong_balance(sandbox: "Sandbox", player: PlayerBalance) -> WrongBalance:
    """Return where the first wrong balance of *player* came from."""
    call = sandbox.live.exchange(player.first_wrong.number) if player.first_wrong else None
    first = min(sandbox.live.deliveries(call), default=call.number) if call else 0
    _, *others = mistakes(sandbox.service.balances.series(player.player_id)) or (0,)
    return WrongBalance(player, call, repeat_of=first if call and first < call.number else 0, others=others)


def mistakes(points: Sequence[ReportedBalance]) -> dict[int, int]:
    """Return by how many cents each call added to the difference, by its number, of those that did; oldest first."""
    found, before = {}, 0
    for point in points:
        # A balance that nothing is expected of says nothing.
        if point.expected_cents is None:
            continue
        difference = point.reported_cents - point.expected_cents
        if difference not in {0, before}:
            found[point.number] = difference - before
        before = difference
    return found


def first_mistake(sandbox: "Sandbox", calls: Sequence[Exchange]) -> ReportedBalance | None:
    """Return the first balance in the answers to a bet's *calls* that shows a mistake; None if none does."""
    board = sandbox.service.balances
    if not calls or not board.disagrees():
        return None
    points = board.series(calls[0].player_id)
    shown = mistakes(points).keys() & {each.number for each in calls}
    return next((point for point in points if point.number in shown), None)


def began_with(sandbox: "Sandbox", exchange: Exchange) -> tuple[int, int]:
    """Return the call with which the difference in *exchange* began, and the cents that it added; 0 if unknown."""
    found = mistakes(sandbox.service.balances.series(exchange.player_id))
    number = max((number for number in found if number <= exchange.number), default=0)
    return number, found.get(number, 0)
