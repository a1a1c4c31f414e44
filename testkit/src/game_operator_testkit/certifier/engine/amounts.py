"""Why a call moved another amount than its own: the wrong way, twice by chance, or rounded."""

from contextlib import suppress
from typing import Final

from game_operator.models.webhooks import WebhookCall
from game_operator_testkit.certifier.engine.calls import Player
from game_operator_testkit.certifier.engine.replies import Replies
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.report.verdicts import KnownCause
from game_operator_testkit.provider.delivery import Carried

#: What is tried where an amount may be rounded, and to which steps; all in cents.
_TRIED_CENTS: Final = (113, 127, 139, 141, 158, 162, 176, 184, 193, 199)
_STEPS_CENTS: Final = (100, 50, 25, 20, 10, 5)
#: So many equal calls show whether one of them is sometimes carried out twice.
_TRIES: Final = 60
_FEWEST_TRIES: Final = 10


def why_off(at: Replies, player: Player, heard: Carried, *, due_cents: int, moved_cents: int) -> tuple[str, str]:
    """Return why the call of *heard* moved another amount than is due: a cause, and more words for the reason."""
    told = f": it moved the balance by {_signed(moved_cents)} in place of {_signed(due_cents)}"
    if moved_cents == -due_cents:
        return KnownCause.OPPOSITE, told
    if moved_cents == 2 * due_cents:
        return _by_chance(at, player, heard, told)
    if 0 < abs(moved_cents - due_cents) < _STEPS_CENTS[0]:
        return _rounded(at, player, heard, told)
    return "", ""


def moved_by_another(at: Replies, player: Player, heard: Carried, cents: int) -> int | None:
    """Return by how much another call of the kind of *heard*, of *cents*, moves the balance; None if it does not."""
    bet, path = at.bet(player, cents), heard.request.path
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


def _by_chance(at: Replies, player: Player, heard: Carried, told: str) -> tuple[str, str]:
    seen, cents = at.observed, at.unit_cents
    if seen.doubles_by_chance:
        return KnownCause.TWICE, told
    for right in range(seen.times(_TRIES, _FEWEST_TRIES)):
        moved_cents = moved_by_another(at, player, heard, cents)
        if moved_cents is None or (not right and abs(moved_cents) != cents):
            break
        if abs(moved_cents) == 2 * cents:
            seen.doubles_by_chance = True
            return KnownCause.TWICE, f"{told}. Of {right + 1} other calls like it, {right} moved their amount"
    return "", told


def _rounded(at: Replies, player: Player, heard: Carried, told: str) -> tuple[str, str]:
    moved = []
    for cents in _TRIED_CENTS:
        if (moved_cents := moved_by_another(at, player, heard, cents)) is None:
            return "", ""
        moved.append((cents, abs(moved_cents)))
    for step in _STEPS_CENTS:
        if all(each % step == 0 and abs(each - cents) < step for cents, each in moved):
            some = ", ".join(f"{cents / 100:.2f} moves {each / 100:.2f}" for cents, each in moved[:3])
            return KnownCause.ROUNDED_AMOUNTS, f"{told}. It is rounded to {step / 100:.2f}: {some}"
    return "", ""


def _signed(cents: int) -> str:
    return f"{cents / 100:+,.2f}".replace(",", "")
