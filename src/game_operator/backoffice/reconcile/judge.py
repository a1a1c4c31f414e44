"""
What a bet of ours and the provider's answer about it mean together: one table, and pure.

::

    ours         OPEN there      CLOSED there     ROLLED_BACK there  NOT_FOUND there
    -----------  --------------  ---------------  -----------------  ---------------
    OPEN         wait ¹          settle ²         refund ²           missing there ³
    SPENT        agrees          agrees ⁴         state differs ⁶    missing there ³
    CLOSED       state differs   agrees ⁴         state differs ⁶    missing there ³
    ROLLED_BACK  state differs   state differs ⁶  agrees             agrees
    TOMBSTONE    state differs   state differs    agrees             agrees
    DECLINED     declined here   state differs    agrees             agrees
    none         unknown here ⁵  unknown here ⁵   agrees             agrees

    ¹ From day 80 it is an alarm: nears the end. After 90 days a service knows no bet any more.
    ² Younger than the least age of a repair: wait. Named by a claim: claimed. A win above the limit of the game
      instance: win too high; a win whose limit is unknown: limit unknown.
    ³ Older than 89 days: too old.
    ⁴ Another amount: amount differs. A SPENT bet that has won something is such a case. Settled or paid without a
      call, and named by a claim that came later: claimed.
    ⁵ Younger than the least age, or named by a claim: agrees.
    ⁶ Payments that made up for it: agrees.

Before that: an answer about another bet is "bet differs", about another player "player differs", with another wager
"amount differs", and with another instance, game or round "game differs". What could not be read is "unreadable", and
no answer is "no answer". A bet that is NOT_FOUND there, and whose id has the whole shape of those that a certification
or a storm makes, is "test bet": nobody but us has ever known it.

What is owed for a bet that a claim names is not known: its win may hold what the claim has paid. A claim names the bet
whose id it has. A person who pays counts the claims; those fill what is missing.
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple

from game_operator.backoffice.reconcile.evidence import Evidence
from game_operator.codes import BetState
from game_operator.errors import shown
from game_operator.ledger.api import BetRecord
from game_operator.ledger.staff.repairs import credited_cents, owed_beside
from game_operator.models import BetNotFound, ClosedBet, OpenBet, RolledBackBet
from game_operator.money import amount_from_cents

DAY_MILLIS: Final = 86_400_000
#: After 90 days a service removes a bet (spec §8); a day less, for two clocks.
_LAST_MILLIS: Final = 89 * DAY_MILLIS
_ALARM_MILLIS: Final = 80 * DAY_MILLIS
#: Ids of bets that a certification or a storm makes: the run, the scenario, a word and a number; then what is tried.
_CERTIFY: Final = re.compile(
    r"certify-[0-9a-f]{8}-(?:[A-Z][0-9]{2}(?:-within-limits)?|balances|end)-[A-Za-z]+-[0-9]+(?:[^0-9].*)?", re.DOTALL
)
_STORM: Final = re.compile(r"storm-bet-[0-9a-f]{16}-[0-9]+-[0-9]+")


class Verdict(StrEnum):
    """What a bet and the answer about it mean; docs/how-to/reconcile.md says what to do about each."""

    AGREES = "agrees"
    WAIT = "wait"
    SETTLE = "settle"
    REFUND = "refund"
    SETTLED = "settled"
    REFUNDED = "refunded"
    MISSING_THERE = "missing_there"
    TOO_OLD = "too_old"
    NEARS_THE_END = "nears_the_end"
    AMOUNT_DIFFERS = "amount_differs"
    PLAYER_DIFFERS = "player_differs"
    BET_DIFFERS = "bet_differs"
    GAME_DIFFERS = "game_differs"
    STATE_DIFFERS = "state_differs"
    UNKNOWN_HERE = "unknown_here"
    DECLINED_HERE = "declined_here"
    CLAIMED = "claimed"
    WIN_TOO_HIGH = "win_too_high"
    LIMIT_UNKNOWN = "limit_unknown"
    ANSWERS_DIFFER = "answers_differ"
    UNREADABLE = "unreadable"
    NO_ANSWER = "no_answer"
    FAILED = "failed"
    TEST_BET = "test_bet"

    @property
    def is_finding(self) -> bool:
        """Whether a person should look into it."""
        return self not in _IN_ORDER

    @property
    def is_repair(self) -> bool:
        """Whether the bet may be settled."""
        return self in (Verdict.SETTLE, Verdict.REFUND)


_IN_ORDER: Final = frozenset(
    {
        *(Verdict.AGREES, Verdict.WAIT, Verdict.SETTLE, Verdict.REFUND, Verdict.SETTLED, Verdict.REFUNDED),
        Verdict.TEST_BET,
    }
)


class Ours(NamedTuple):
    """
    What the ledger knows of a bet.

    Attributes:
        bet: The bet, or None.
        claim: The identity of the latest claim that names the bet and that no person has counted as paid, or None.
        paid_cents: What was paid for findings about it.
        counted_cents: What claims have paid that a person has counted as paid for it.
    """

    bet: BetRecord | None
    claim: str | None = None
    paid_cents: int = 0
    counted_cents: int = 0


class Judgement(NamedTuple):
    """
    A verdict and what belongs to it.

    Attributes:
        verdict: The verdict.
        detail: The same for a person, with the values that differ.
        at_stake_cents: The money at stake; where something is owed, all that the account should have got for the bet.
        owed_cents: What is owed to the account, below zero if it has too much; None if that is not known.
    """

    verdict: Verdict
    detail: str = ""
    at_stake_cents: int = 0
    owed_cents: int | None = None


class Limits(NamedTuple):
    """
    What a judgement depends on beside the bet and the answer; times in milliseconds.

    Attributes:
        now_millis: The time.
        min_age_millis: A bet that is younger is left to its own calls.
        max_win_cents: The most that a bet of its game instance can win; None if that is unknown.
    """

    now_millis: int
    min_age_millis: int
    max_win_cents: int | None


def judge(ours: Ours, evidence: Evidence, limits: Limits) -> Judgement:
    """Return what our bet and the answer about it mean."""
    there = evidence.bet
    if there is None:
        return Judgement(Verdict.UNREADABLE if evidence.answered else Verdict.NO_ANSWER, evidence.problem, _stake(ours))
    if isinstance(there, BetNotFound):
        return _missing(ours, evidence.bet_id, limits)
    if there.reference_id != evidence.bet_id:
        detail = f"The answer is about the bet {shown(there.reference_id)}."
        return Judgement(Verdict.BET_DIFFERS, detail, _stake(ours))
    if ours.bet is None:
        return _unknown(ours, there, limits)
    return _difference(ours.bet, there) or _by_state(ours, ours.bet, there, limits)


def _stake(ours: Ours) -> int:
    return 0 if ours.bet is None else ours.bet.wager_cents


def _missing(ours: Ours, bet_id: str, limits: Limits) -> Judgement:
    bet = ours.bet
    if bet is None or bet.state in (BetState.ROLLED_BACK, BetState.TOMBSTONE, BetState.DECLINED):
        return (bet and _claimed_later(ours, bet)) or Judgement(Verdict.AGREES)
    if is_test_bet(bet_id):
        return Judgement(Verdict.TEST_BET, "A certification or a storm has made it.", bet.wager_cents)
    if limits.now_millis - bet.opened_at_millis > _LAST_MILLIS:
        detail = (
            f"The bet is {bet.state.value} here. It is older than 89 days, and the provider keeps bets for 90 days."
        )
        return Judgement(Verdict.TOO_OLD, detail, bet.wager_cents)
    detail = f"The bet is {bet.state.value} here, and the provider does not know it."
    return Judgement(Verdict.MISSING_THERE, detail, bet.wager_cents)


def _unknown(ours: Ours, there: OpenBet | ClosedBet | RolledBackBet, limits: Limits) -> Judgement:
    # A withdraw may be on the way, and two clocks differ; but a time far in the future keeps nothing from being seen.
    is_young = abs(limits.now_millis - there.timestamp) < limits.min_age_millis
    if isinstance(there, RolledBackBet) or ours.claim is not None or is_young:
        return Judgement(Verdict.AGREES)
    detail = (
        f"The provider has a bet of {shown(there.player_id)} that is {there.status} and wagers "
        f"{amount_from_cents(there.wager)}. No withdraw of it came."
    )
    return Judgement(Verdict.UNKNOWN_HERE, detail, there.won if isinstance(there, ClosedBet) else there.wager)


def _difference(bet: BetRecord, there: OpenBet | ClosedBet | RolledBackBet) -> Judgement | None:
    """Return what says that the answer is not about this bet, or None."""
    if there.player_id != bet.player_id:
        detail = f"The player is {shown(bet.player_id)} here, and {shown(there.player_id)} there."
        return Judgement(Verdict.PLAYER_DIFFERS, detail, bet.wager_cents)
    # A tombstone was left by a rollback: it knows neither the wager nor the game.
    if bet.state is BetState.TOMBSTONE:
        return None
    if there.wager != bet.wager_cents:
        detail = f"The wager is {amount_from_cents(bet.wager_cents)} here, and {amount_from_cents(there.wager)} there."
        return Judgement(Verdict.AMOUNT_DIFFERS, detail, bet.wager_cents)
    for name in ("instance_id", "game", "round_id"):
        here, answered = getattr(bet, name), getattr(there, name)
        if here is not None and here != answered:
            detail = f"The {name} is {shown(here)} here, and {shown(answered)} there."
            return Judgement(Verdict.GAME_DIFFERS, detail, bet.wager_cents)
    return None


def _by_state(ours: Ours, bet: BetRecord, there: OpenBet | ClosedBet | RolledBackBet, limits: Limits) -> Judgement:
    if bet.state is BetState.OPEN:
        return _open(ours, bet, there, limits)
    if bet.state is BetState.DECLINED and isinstance(there, OpenBet):
        detail = "The withdraw was refused here, and the provider has the bet as OPEN."
        return Judgement(Verdict.DECLINED_HERE, detail, bet.wager_cents)
    if isinstance(there, OpenBet) and bet.state is BetState.SPENT:
        return Judgement(Verdict.AGREES)
    if not isinstance(there, OpenBet) and (claimed := _claimed_later(ours, bet)):
        return claimed
    if isinstance(there, ClosedBet) and bet.state in (BetState.CLOSED, BetState.SPENT):
        return _owed(Verdict.AMOUNT_DIFFERS, ours, bet, there, there.won)
    if isinstance(there, RolledBackBet) and bet.state not in (BetState.CLOSED, BetState.SPENT):
        return Judgement(Verdict.AGREES)
    if bet.state in (BetState.CLOSED, BetState.ROLLED_BACK, BetState.SPENT) and not isinstance(there, OpenBet):
        due_cents = there.won if isinstance(there, ClosedBet) else bet.wager_cents
        return _owed(Verdict.STATE_DIFFERS, ours, bet, there, due_cents)
    detail = f"The bet is {bet.state.value} here, and {there.status} there."
    return Judgement(Verdict.STATE_DIFFERS, detail, there.won if isinstance(there, ClosedBet) else bet.wager_cents)


def _owed(verdict: Verdict, ours: Ours, bet: BetRecord, there: ClosedBet | RolledBackBet, due_cents: int) -> Judgement:
    """Compare what the account got with what is due; a payment may have made up for another state."""
    got_cents = credited_cents(bet) + ours.paid_cents
    owed_cents = owed_beside(due_cents - got_cents, ours.counted_cents)
    if owed_cents == 0 and (verdict is Verdict.AMOUNT_DIFFERS or ours.paid_cents or ours.counted_cents):
        return Judgement(Verdict.AGREES)
    detail = (
        f"The bet is {bet.state.value} here and {there.status} there. Its account got {amount_from_cents(got_cents)}, "
        f"and {amount_from_cents(due_cents)} is due."
    )
    if ours.claim is not None:
        detail += f" The claim {shown(ours.claim)} names the bet, and may have paid the difference."
        return Judgement(verdict, detail, due_cents)
    # Of a SPENT bet nothing is paid by hand: a rollback may still refund it.
    return Judgement(verdict, detail, due_cents, None if bet.state is BetState.SPENT else owed_cents)


def _claimed_later(ours: Ours, bet: BetRecord) -> Judgement | None:
    """Return what says that a claim came after the bet was settled or paid without a call, or None."""
    is_paid = ours.paid_cents or ours.counted_cents or (bet.settled_by is not None and bet.deposit_tx_id is None)
    if ours.claim is None or not is_paid:
        return None
    # A bet is neither repaired nor paid by hand beside a claim that nobody counts, so the claim came later.
    detail = f"The claim {shown(ours.claim)} came after the bet was settled or paid without a call: both may have paid."
    return Judgement(Verdict.CLAIMED, detail, credited_cents(bet) + ours.paid_cents)


def _open(ours: Ours, bet: BetRecord, there: OpenBet | ClosedBet | RolledBackBet, limits: Limits) -> Judgement:
    age_millis = limits.now_millis - bet.opened_at_millis
    if isinstance(there, OpenBet):
        if age_millis < _ALARM_MILLIS:
            return Judgement(Verdict.WAIT)
        detail = "The bet has been OPEN for 80 days on both sides, and the provider keeps bets for 90 days."
        return Judgement(Verdict.NEARS_THE_END, detail, bet.wager_cents)
    cents = there.won if isinstance(there, ClosedBet) else bet.wager_cents
    # A time in the future is a wrong clock's: its age says nothing.
    if 0 <= age_millis < limits.min_age_millis:
        return Judgement(Verdict.WAIT)
    if ours.claim is not None:
        detail = f"The claim {shown(ours.claim)} names the bet, so its winnings may be paid already."
        return Judgement(Verdict.CLAIMED, detail, cents)
    if isinstance(there, RolledBackBet):
        return Judgement(Verdict.REFUND, f"The provider has rolled it back; the wager {_money(cents)} is owed.", cents)
    if there.won and limits.max_win_cents is None:
        detail = f"The limit of the game instance {shown(there.instance_id)} is unknown, so a win is not settled."
        return Judgement(Verdict.LIMIT_UNKNOWN, detail, cents)
    if there.won > (limits.max_win_cents or 0):
        detail = f"The win {_money(cents)} is above {_money(limits.max_win_cents or 0)}, the most that its game pays."
        return Judgement(Verdict.WIN_TOO_HIGH, detail, cents)
    return Judgement(Verdict.SETTLE, f"The provider has closed it; the win {_money(cents)} is owed.", cents)


def _money(cents: int) -> str:
    return str(amount_from_cents(cents))


def is_test_bet(bet_id: str) -> bool:
    """Return whether an id has the whole shape of those that the certifier or a storm makes; a scenario swaps case."""
    return bool(_STORM.fullmatch(bet_id) or any(map(_CERTIFY.fullmatch, (bet_id, bet_id.swapcase()))))
