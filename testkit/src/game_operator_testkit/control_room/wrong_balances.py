"""
Where a wrong balance came from: the call that first showed it, its bet, and whether later ones are wrong by as much.

A wallet that once moved too much reports a wrong balance from then on, so of many only the first of each difference
shows a mistake.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from game_operator.text import money
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
        carries_on: Whether all later balances differ by as much as the first wrong one.
        others: The numbers of later calls that show mistakes of their own.
    """

    player: PlayerBalance
    call: Exchange | None
    repeat_of: int
    carries_on: bool
    others: Sequence[int]


def wrong_balance(sandbox: "Sandbox", player: PlayerBalance) -> WrongBalance:
    """Return where the first wrong balance of *player* came from."""
    call = sandbox.live.exchange(player.first_wrong.number) if player.first_wrong else None
    first = _first_delivery(sandbox, call) if call else 0
    series = sandbox.service.balances.series(player.player_id)
    _, *others = mistakes(series) or (0,)
    # Of very many balances only the newest are kept, and the rest may have been others.
    is_whole = sum(not point.agrees for point in series) == player.wrong_count
    repeat_of = first if call and first < call.number else 0
    return WrongBalance(player, call, repeat_of, carries_on=is_whole and not others, others=others)


def difference(point: ReportedBalance) -> int:
    """Return by how many cents *point* is too high; less than 0 if it is too low."""
    return 0 if point.expected_cents is None else point.reported_cents - point.expected_cents


def mistakes(points: Sequence[ReportedBalance]) -> dict[int, int]:
    """Return by how many cents each call added to the difference, by its number, of those that did; oldest first."""
    found, before = {}, 0
    for point in points:
        # A balance that nothing is expected of says nothing.
        if point.expected_cents is None:
            continue
        if not point.agrees and difference(point) != before:
            found[point.number] = difference(point) - before
        before = difference(point)
    return found


def first_mistake(sandbox: "Sandbox", calls: Sequence[Exchange]) -> ReportedBalance | None:
    """Return the first balance in the answers to a bet's *calls* that shows a mistake; None if none does."""
    board = sandbox.service.balances
    if not calls or not board.disagrees():
        return None
    points = board.series(calls[0].player_id)
    shown = mistakes(points).keys() & {each.number for each in calls}
    return next((point for point in points if point.number in shown), None)


def begun_with(sandbox: "Sandbox", exchange: Exchange) -> int:
    """Return the number of the call with which the difference in *exchange* began; 0 if it is not known."""
    numbers = mistakes(sandbox.service.balances.series(exchange.player_id))
    return max((number for number in numbers if number <= exchange.number), default=0)


def moved_wrongly(sandbox: "Sandbox", exchange: Exchange) -> str:
    """Return how much *exchange* moved, and how much it must; "" if it moved that, or is a repeat or was refused."""
    added = mistakes(sandbox.service.balances.series(exchange.player_id)).get(exchange.number, 0)
    if not added or exchange.code != "SUCCESS" or exchange.number in sandbox.live.deliveries(exchange)[1:]:
        return ""
    moves = (exchange.amount_cents or 0) * (-1 if exchange.operation == "withdraw" else 1)
    return f"The balance moved by {money(moves + added)} and must move by {money(moves)}."


def carried_out_again(sandbox: "Sandbox", exchange: Exchange) -> str:
    """Return that the wallet moved the money of *exchange* again, though it is a repeat; "" if it did not."""
    added = mistakes(sandbox.service.balances.series(exchange.player_id)).get(exchange.number, 0)
    numbers = sandbox.live.deliveries(exchange)
    moves = (exchange.amount_cents or 0) * (-1 if exchange.operation == "withdraw" else 1)
    if not added or added != moves or exchange.number not in numbers[1:]:
        return ""
    place = f"delivery {numbers.index(exchange.number) + 1} of {len(numbers)}"
    much = f"{money(abs(added))} too {'much' if added > 0 else 'little'}"
    return f"The wallet carried this call out a second time: it is {place}, and the balance is {much}."


def _first_delivery(sandbox: "Sandbox", call: Exchange) -> int:
    return min(sandbox.live.deliveries(call), default=call.number)
