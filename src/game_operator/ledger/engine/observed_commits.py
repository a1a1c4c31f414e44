"""What telemetry sees of the ledger: a span for each commit, and the money and anomalies of its calls."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from game_operator.errors import UnknownSourceError
from game_operator.ledger.api import Outcome, Terms
from game_operator.ledger.engine.batch import Result
from game_operator.ledger.rules.book import UNKNOWN_SOURCE, Item, currency_named
from game_operator.ledger.steps import Steps
from game_operator.models.webhooks import BalanceCall, DepositCall, MovingCall, RollbackCall, WebhookCall, WithdrawCall

if TYPE_CHECKING:
    from game_operator.telemetry import Telemetry
    from game_operator.telemetry.instruments import Instruments
    from game_operator.telemetry.webhooks import CommitSpan

T = TypeVar("T")

_UNKNOWN = "unknown"


def observed_batch(
    run: Callable[[Sequence[Item]], list[Result] | Awaitable[list[Result]]],
    items: Sequence[Item],
    telemetry: "Telemetry",
    system: str,
) -> Steps[list[Result]]:
    """Let *run* commit a batch of calls, in the span of a commit; what it returns is awaited under asyncio."""
    span = _begun(telemetry, items, system)
    try:
        results: list[Result] = yield partial(run, items)
    except BaseException as failed:
        span.end(failed)
        raise
    return _ended(telemetry, span, items, results)


def observed_joined(
    work: Steps[Outcome], call: WebhookCall, terms: Terms, telemetry: "Telemetry", system: str
) -> Steps[Outcome]:
    """Do *work*, which applies a call in the operator's transaction and commits it, in the span of a commit."""
    item = Item(call, terms, waiting=telemetry.waiting_call())
    span = _begun(telemetry, [item], system)
    try:
        outcome = yield from work
    except BaseException as failed:
        if isinstance(failed, UnknownSourceError):
            _note_unknown_source(telemetry.instruments, call)
        span.end(failed)
        raise
    _ended(telemetry, span, [item], [outcome])
    return outcome


def note_moved(instruments: "Instruments", call: WebhookCall, terms: Terms, outcome: Outcome) -> None:
    """Let the money be counted that *call* moved, once that is committed."""
    if outcome.delta_cents and not isinstance(call, BalanceCall):
        # Asked now: the operator's function may look at what is current here.
        currency = currency_named(call, terms) or _UNKNOWN
        instruments.later(_count_moved, instruments, call, outcome.delta_cents, currency)


def _count_moved(instruments: "Instruments", call: MovingCall, cents: int, currency: str) -> None:
    if isinstance(call, WithdrawCall):
        instruments.wagered.add(-cents, currency, call.action)
    elif isinstance(call, DepositCall):
        instruments.won.add(cents, currency, call.action)
    else:
        instruments.refunded.add(cents, currency)


def _begun(telemetry: "Telemetry", items: Sequence[Item], system: str) -> "CommitSpan":
    return telemetry.commit([item.waiting for item in items if item.waiting is not None], system)


def _ended(telemetry: "Telemetry", span: "CommitSpan", items: Sequence[Item], results: list[T]) -> list[T]:
    instruments, problem, problems = telemetry.instruments, None, 0
    for item, result in zip(items, results, strict=True):
        if isinstance(result, Outcome):
            _note(instruments, item, result)
        elif isinstance(result, Exception):
            problem, problems = problem or result, problems + 1
            if isinstance(result, UnknownSourceError):
                _note_unknown_source(instruments, item.call)
    span.end(problem if problems == len(results) else None)
    return results


def _note_unknown_source(instruments: "Instruments", call: WebhookCall) -> None:
    if isinstance(call, DepositCall | RollbackCall):  # These are kept, because they may be owed.
        instruments.anomalies.add(1, UNKNOWN_SOURCE)


def _note(instruments: "Instruments", item: Item, outcome: Outcome) -> None:
    note_moved(instruments, item.call, item.terms, outcome)
    if outcome.anomaly:
        instruments.anomalies.add(1, outcome.anomaly)
    if outcome.replayed and item.waiting and item.waiting.webhook:
        item.waiting.webhook.repeats += (item.call,)
