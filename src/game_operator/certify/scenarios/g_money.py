"""Group G, money: not a cent is lost to rounding, however small, odd or large the amounts (spec §2.1)."""

import re
from collections.abc import Callable, Generator
from typing import Final

from game_operator.certify.engine.endings import Found, NotTried
from game_operator.certify.engine.stage import Asking, Judging, Stage, units
from game_operator.certify.report.verdicts import Weight
from game_operator.certify.scenarios.random_operations import played_at_random
from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import BalanceCall, DepositCall
from game_operator.protocol.webhook_reply import fold_code
from game_operator.provider.bets import Bet
from game_operator.provider.requests import Heard, Step

_LAST_CENTS: Final = 100
_MUCH_CENTS: Final = 123_456_789_012
#: What is taken and won in turn: int(19.99 * 100) is 1998, and so with the others; 9.95 + 0.1 is no better. The whole
#: leaves the balance as it was.
_ODD_CENTS: Final = (115, 1_999, 435)
#: A balance that is written with an exponent.
_EXPONENT: Final = re.compile(rb'"balance"\s*:\s*-?[0-9.]+[eE]')


def g01(at: Stage) -> Judging:
    """From 1.00, a hundred withdraws of 0.01 lead to exactly 0.00, and each step is told exactly."""
    most_cents = at.player.due_cents - _LAST_CENTS
    if most_cents < 1:
        raise NotTried(f"the player has {units(at.player.due_cents)}, and more than 1.00 is needed")
    most = at.bet(cents=most_cents)
    yield from _taken(at, most, "a withdraw of all but 1.00")
    for number in range(_LAST_CENTS):
        yield from _taken(at, at.bet(cents=1), f"withdraw {number + 1} of 0.01")
    yield from at.accepts(most.deposit(most_cents), "the first one's deposit, of as much", moves=most_cents)


def g02(at: Stage) -> Judging:
    """Bets and wins of 1.15, 19.99 and 4.35 move exactly that."""
    yield from _odd_amounts(at, lambda _: None)


def g03(at: Stage) -> Judging:
    """A balance of 1234567890.12 is told exactly, digit for digit, and can be wagered again."""
    much_cents = _MUCH_CENTS - at.player.due_cents
    if much_cents < 1:
        raise NotTried(f"the player has {units(at.player.due_cents)}, and a smaller balance is tried")
    yield from _check_unlimited(at, much_cents)
    credit = yield from _credit(at, much_cents)
    back = at.bet(cents=much_cents)
    steps = (
        (at.request(credit, f"a credit of {units(credit.amount_cents)}"), credit.amount_cents),
        (at.request(BalanceCall(player_id=at.player.id), "the balance after it"), 0),
        (at.request(back.withdraw(), "a withdraw of as much"), -much_cents),
        (at.request(back.deposit(0), "its deposit of 0, a loss"), 0),
    )
    heard = []
    for request, _ in steps:
        heard.append((yield from at.send(request)))
    # Not before: if answers with so large a balance cannot be read, it must be gone when the next scenario is played.
    for each, (_, moves) in zip(heard, steps, strict=True):
        _judge_large(at, each, moves)


def g04(at: Stage) -> Judging:
    """Whatever is played, both balances are what the answered calls have moved."""
    count = at.values["random_operations"]
    assert isinstance(count, int)
    yield from played_at_random(at, count)


def g05(at: Stage) -> Judging:
    """After each bet and win of odd amounts, the operator's own balance is the one that is told."""
    yield from _odd_amounts(at, lambda heard: _check_stored(at, heard))


def _taken(at: Stage, bet: Bet, title: str) -> Asking:
    return (yield from at.accepts(bet.withdraw(), title, moves=-bet.wager_cents, unless_limited=True))


def _odd_amounts(at: Stage, look: Callable[[Heard], object]) -> Judging:
    """Wager each odd amount and win the next one; *look* at what is heard of each call."""
    for wager_cents, won_cents in zip(_ODD_CENTS, (*_ODD_CENTS[1:], _ODD_CENTS[0]), strict=True):
        bet = at.bet(cents=wager_cents)
        look((yield from _taken(at, bet, f"a withdraw of {units(wager_cents)}")))
        look((yield from at.accepts(bet.deposit(won_cents), f"a win of {units(won_cents)}", moves=won_cents)))


def _check_stored(at: Stage, heard: Heard) -> None:
    stored, due = at.stored_cents(at.player), at.player.due_cents
    if stored != due:
        told = f"{heard.request.title}: the operator's own books have {units(stored)}, and {units(due)} is told and due"
        raise Found(told, place=heard.place)


def _check_unlimited(at: Stage, much_cents: int) -> Judging:
    """Ask first whether so much can be wagered: a credit that could not be taken back would stay with the player."""
    heard = yield from at.hear(at.bet(cents=much_cents).withdraw(), "a withdraw of far more than there is")
    if heard.code != WebhookErrorCode.INSUFFICIENT_BALANCE:
        said = heard.code or "SUCCESS"
        raise NotTried(f"so much could not be taken back: a withdraw of {units(much_cents)} was answered {said}")


def _credit(at: Stage, much_cents: int) -> Generator[Step, list[Heard], DepositCall]:
    """Return the call that brings so much more: a jackpot if the profile has any, or else the win of a bet."""
    if "JACKPOT" in at.claim_types:
        return at.claim(much_cents, "JACKPOT")
    bet = at.bet()
    yield from _taken(at, bet, "a withdraw")
    return bet.deposit(much_cents + bet.wager_cents)


def _judge_large(at: Stage, heard: Heard, moves: int) -> None:
    at.check_reply(heard)
    title = heard.request.title
    if heard.code == fold_code(WebhookErrorCode.LIMIT_EXCEEDED, at.profile):
        raise NotTried(f"the wallet limits amounts: {title} was refused with {heard.code}")
    at.check_success(heard)
    at.player.due_cents += moves
    told, due = heard.balance_cents, at.player.due_cents
    if told is not None and told != due:
        reason = f"{title}: tells a balance of {units(told)}, and {units(due)} is due"
        at.note(reason, Weight.CONTRACT_BROKEN, "tells a wrong balance", heard)
    if _EXPONENT.search(heard.body):
        at.advise(f"{title}: the balance is written with an exponent, which not every reader of money takes", heard)
