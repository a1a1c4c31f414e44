"""Why a call moved another amount than its own: the wrong way, twice or not at all by chance, or rounded."""

from contextlib import suppress
from typing import Final

from game_operator.models.webhooks import WebhookCall
from game_operator_testkit.certifier.engine.calls import Player
from game_operator_testkit.certifier.engine.replies import Replies
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.report.verdicts import KnownCause
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import BetCalls

#: What is tried where an amount may be rounded, and to which steps; all in cents.
_TRIED_CENTS: Final = (113, 127, 139, 141, 158, 162, 176, 184, 193, 199)
_STEPS_CENTS: Final = (100, 50, 25, 20, 10, 5)
#: Wagers, and what they win, by which other calls show what they move.
_TRIED_PAIRS_CENTS: Final = ((200, 100), (100, 300), (300, 500))
#: So many equal calls show whether one of them is sometimes carried out twice, or not at all.
_TRIES: Final = 60
#: What a float is off by; small bets by which the same amount is tried from other balances. So much is a lot.
_FEW_CENTS: Final = 2
_SHIFTS_CENTS: Final = (7, 19, 31, 43)
_LARGE_CENTS: Final = 10_000
_FEWEST_TRIES: Final = 10


def why_off(at: Replies, player: Player, heard: Carried, *, due_cents: int, moved_cents: int) -> tuple[str, str]:
    """Return why the call of *heard* moved another amount than is due: a cause, and more words for the reason."""
    told = f": it moved the balance by {_signed(moved_cents)} in place of {_signed(due_cents)}"
    if at.observed.late_seconds:
        return "", told  # Money of an earlier call may have come in between.
    if moved_cents == -due_cents != 0:
        return KnownCause.OPPOSITE, told
    if due_cents and moved_cents in (0, 2 * due_cents):
        cause, more = _by_chance(at, player, heard, moved_cents // due_cents)
        if cause or not moved_cents:
            return cause, told + more
        told += more
    if 0 < abs(moved_cents - due_cents) <= _FEW_CENTS < abs(due_cents) and _comes_and_goes(
        at, player, heard, due_cents
    ):
        return KnownCause.INEXACT, told
    if 0 < abs(moved_cents - due_cents) < _STEPS_CENTS[0]:
        return _rounded(at, player, heard, told)
    return _always(at, player, heard, told)


def moved_by_another(
    at: Replies, player: Player, heard: Carried, cents: int, wager_cents: int | None = None
) -> int | None:
    """
    Return by how much another call of the kind of *heard*, of *cents*, moves the balance; None if it does not.

    A deposit is of a bet of *wager_cents*, or of as much as it pays.
    """
    path = heard.request.path
    bet = at.bet(player, cents if wager_cents is None else wager_cents)
    calls: list[WebhookCall] = [bet.withdraw()]
    if at.kind_of(heard) != path:
        calls = [*at.jackpots(cents, player)]
    elif path == "/deposit":
        calls.append(bet.deposit(cents))
    elif path == "/rollback":
        calls.append(bet.rollback())
    before_cents = None
    with suppress(Found):
        for call in calls:
            before_cents = _balance_of(at, player)
            if not at.send(at.request(call, f"another {call.operation}, to see what it moves")).succeeded:
                return None
        after_cents = _balance_of(at, player)
        if path == "/withdraw":
            at.send(at.request(bet.rollback(), "its rollback"))
        return None if before_cents is None or after_cents is None else after_cents - before_cents
    return None


def _balance_of(at: Replies, player: Player) -> int | None:
    return at.ask(at.balance_request(f"the balance of {player.id}", player)).balance_cents


def _by_chance(at: Replies, player: Player, heard: Carried, factor: int) -> tuple[str, str]:
    """Return the cause if calls like that of *heard* now and then move so many times their amount, and most once."""
    seen, cents = at.observed, at.unit_cents
    kind = f"{at.kind_of(heard)} {factor}"
    cause = KnownCause.TWICE if factor else KnownCause.AT_TIMES
    if kind in seen.at_times:
        return cause, ""
    if not seen.takes_a_try(kind):
        return "", ""
    for right in range(seen.times(_TRIES, _FEWEST_TRIES)):
        moved_cents = moved_by_another(at, player, heard, cents)
        if not right and moved_cents == factor == 0 and heard.request.path == "/withdraw":
            return KnownCause.NOT_DEBITED, ". Another one moved nothing either"
        if moved_cents is None or (not right and abs(moved_cents) != cents):
            return "", ""
        if abs(moved_cents) == factor * cents:
            seen.at_times.add(kind)
            return cause, f". Of {right + 1} other calls like it, {right} moved their amount"
    return "", f". {right + 1} other calls like it moved their amount"


def _comes_and_goes(at: Replies, player: Player, heard: Carried, due_cents: int) -> bool:
    """Return whether a call like that of *heard* moves its amount from another balance, so that the amount is right."""
    bets: list[BetCalls] = []
    moved: set[int | None] = set()
    for cents in _SHIFTS_CENTS:
        bet = at.bet(player, cents)
        title = "a small withdraw, to try the amount from another balance"
        if not at.send(at.request(bet.withdraw(), title)).succeeded:
            break
        bets.append(bet)
        moved.add(moved_by_another(at, player, heard, abs(due_cents)))
    for bet in bets:
        at.send(at.request(bet.rollback(), "its rollback"))
    # Where there is too little left, nothing else takes a cent from a large amount.
    return due_cents in moved or (moved <= {None} and abs(due_cents) >= _LARGE_CENTS)


def _rounded(at: Replies, player: Player, heard: Carried, told: str) -> tuple[str, str]:
    moved = []
    for cents in _TRIED_CENTS:
        if (moved_cents := moved_by_another(at, player, heard, cents)) is None:
            return "", told
        moved.append((cents, abs(moved_cents)))
    some = ", ".join(f"{cents / 100:.2f} moves {each / 100:.2f}" for cents, each in moved[:3])
    for step in _STEPS_CENTS:
        if all(each % step == 0 and abs(each - cents) < step for cents, each in moved):
            return KnownCause.ROUNDED_AMOUNTS, f"{told}. It is rounded to {step / 100:.2f}: {some}"
    is_by_a_cent = all(abs(each - cents) <= 1 for cents, each in moved)
    return "" if is_by_a_cent else KnownCause.OTHER_AMOUNT, f"{told}. Others: {some}"


def _always(at: Replies, player: Player, heard: Carried, told: str) -> tuple[str, str]:
    """Return what other plain calls of this kind move, and that it is the kind that is wrong if they are off too."""
    is_settled = heard.request.path == "/deposit" == at.kind_of(heard)
    some, is_off = [], False
    for wager_cents, won_cents in _TRIED_PAIRS_CENTS:
        cents = won_cents if is_settled else wager_cents
        if (moved_cents := moved_by_another(at, player, heard, cents, wager_cents)) is None:
            return "", told
        of_a_bet = f" of a bet of {wager_cents / 100:.2f}" if is_settled else ""
        some.append(f"{cents / 100:.2f}{of_a_bet} moved {_signed(moved_cents)}")
        is_off = is_off or abs(moved_cents) != cents
    return KnownCause.OTHER_AMOUNT if is_off else "", f"{told}. Others like it: {', '.join(some)}"


def _signed(cents: int) -> str:
    return f"{cents / 100:+,.2f}".replace(",", "")
