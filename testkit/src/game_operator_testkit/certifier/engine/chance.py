"""Whether a wallet that did not know a call again forgets calls by chance: of many equal tries, a few fail."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from game_operator.models.webhooks import WebhookCall
from game_operator_testkit.certifier.engine.observed import BALANCE_PATH
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.report.verdicts import Exchange, KnownCause

_TRIES: Final = 40
_FEWEST_TRIES: Final = 10
#: If by then one kind of call was never known again, it is no matter of chance.
_FEW: Final = 4
#: So often in a run it is tried in vain.
_MOST_IN_VAIN: Final = 2
#: What a lost record looks like.
_LOOKS_SO: Final = frozenset(
    {"", KnownCause.REPEAT_REFUSED, KnownCause.SETTLED_GONE, KnownCause.NO_TX_ID, KnownCause.TWIN_REFUSED}
)


def by_chance(at: Stage, found: Found, exchanges: Iterable[Exchange]) -> Found:
    """Return *found* of a scenario with these *exchanges*, or that the record of a call is sometimes not kept."""
    seen = at.observed
    sent = Counter(each.request_body for each in exchanges if each.path != BALANCE_PATH)
    looks_so = found.cause in _LOOKS_SO or (seen.forgets_by_chance and found.cause == KnownCause.NARROW)
    is_about_repeats = looks_so and any(times > 1 for times in sent.values())
    hides = seen.unjudged or seen.late_seconds or seen.is_behind
    if not is_about_repeats or seen.is_slow or hides or seen.tried_in_vain >= _MOST_IN_VAIN:
        return found
    if seen.forgets_by_chance:
        return Found(found.reason, weight=found.weight, cause=KnownCause.NOT_KEPT, place=found.place)
    lost, tried = _lost_of(at, seen.times(_TRIES, _FEWEST_TRIES))
    if not any(0 < lost[each] < tried[each] for each in tried):
        seen.tried_in_vain += 1
        return found
    seen.forgets_by_chance = True
    told = f"{found.reason}. Of {tried.total()} other calls, {(tried - lost).total()} were known when they came again"
    return Found(told, weight=found.weight, cause=KnownCause.NOT_KEPT, place=found.place)


def _lost_of(at: Stage, tries: int) -> tuple[Counter[str], Counter[str]]:
    """Return of each operation how many calls were not known when they came again, and how many were tried."""
    lost, tried = Counter[str](), Counter[str]()
    for number in range(tries):
        bet = at.bet()
        for call in (bet.withdraw(), bet.deposit(bet.wager_cents) if number % 2 else bet.rollback()):
            tried[call.operation] += 1
            lost[call.operation] += _is_lost(at, call)
        if number + 1 == _FEW and any(lost[each] == tried[each] for each in tried):
            break
    return lost, tried


def _is_lost(at: Stage, call: WebhookCall) -> bool:
    request = at.request(call, "a call, to see whether it is known again")
    first, again = at.send(request), at.send(request)
    return first.succeeded and not (again.succeeded and again.balance_cents == first.balance_cents)
