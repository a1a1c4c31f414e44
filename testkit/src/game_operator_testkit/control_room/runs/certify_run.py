"""A certification that was begun on a page: its settings, how far it is, and its report."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Final

from game_operator.ledger.sql import SqlLedger
from game_operator.money import amount_from_cents
from game_operator_testkit.certifier import Supplies, certify, scenarios
from game_operator_testkit.certifier.engine.scenario import Scenario
from game_operator_testkit.certifier.engine.supplies import at_hand, needs_told, options_for
from game_operator_testkit.certifier.report.report import Report
from game_operator_testkit.certifier.report.summary import Summary
from game_operator_testkit.certifier.report.verdicts import GROUPS, Exchange, Outcome, Verdict
from game_operator_testkit.certifier.selection import in_playing_order, selected
from game_operator_testkit.control_room.jobs import Job

if TYPE_CHECKING:
    from game_operator_testkit.sandbox.server import Sandbox

#: Seconds for one call, and for the whole run.
_TIMEOUT: Final = 5.0
_DEADLINE: Final = 900.0
#: What each group is about, for somebody who has never seen one.
_ABOUT: Final = {
    "A": "a bet is placed, won, lost or cancelled",
    "B": "the same call comes again",
    "C": "calls come late, early or in another order",
    "D": "many calls come at the same moment",
    "E": "signatures, keys, and calls of strangers",
    "F": "bodies and requests that no service should send",
    "G": "exact amounts, over many bets",
    "H": "slow answers, lost connections, the clock",
}
#: What an exchange takes beside its bytes.
_EXCHANGE_BYTES: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifySettings:
    """
    What the form asks for.

    Attributes:
        player_id, other_player_id: Whose money is moved, and put back.
        only: The groups and ids that are played.
        instance_id: The game that is played.
        random_operations: How many random operations G04 plays; 0 leaves it out.
        moves_money: Whether a wallet on another machine may be certified.
    """

    player_id: str
    other_player_id: str
    only: Sequence[str]
    instance_id: str
    random_operations: int
    moves_money: bool = False


@dataclass(eq=False)
class CertifyRun:
    """
    A run, from its first moment on.

    Attributes:
        number: Counts up from 1.
        settings: What was asked for.
        url: The wallet.
        began_millis: When it began, in Unix milliseconds.
        leaves_bets: Whether a ledger at hand keeps its bets, which the service does not know.
        scenarios: What is played, in this order.
        verdicts: Those that there are so far, in the order of playing.
        report: What came of it; None before its end, and if it could not begin.
    """

    number: int
    settings: CertifySettings
    url: str
    began_millis: int
    leaves_bets: bool
    scenarios: Sequence[Scenario]
    verdicts: list[Verdict] = field(default_factory=list)
    report: Report | None = None
    job: Job = field(init=False, repr=False)

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return sum(_size_of(exchange) for verdict in tuple(self.verdicts) for exchange in verdict.exchanges)

    @property
    def now(self) -> Scenario | None:
        """The scenario that is played now; None after the last one."""
        return next(iter(self.scenarios[len(self.verdicts) :]), None)

    @property
    def passed(self) -> int:
        """How many scenarios have passed so far."""
        return sum(verdict.outcome is Outcome.PASSED for verdict in tuple(self.verdicts))

    @property
    def failed(self) -> int:
        """How many have failed so far, advice apart."""
        return sum(verdict.failed for verdict in tuple(self.verdicts))

    @property
    def headline(self) -> str:
        """How it ended, or what it does, in one sentence."""
        if self.report is not None:
            return Summary(self.report).headline
        return "At work." if self.job.is_running else "It could not begin."

    @property
    def tone(self) -> str:
        """How the headline is coloured."""
        if self.report is None:
            return "" if self.job.is_running else "bad"
        return "good" if Summary(self.report).is_fine else "bad" if not self.report.passed else "warn"


def groups() -> list[tuple[str, str, str, list[Scenario]]]:
    """Return letter and name of each group of scenarios, what it is about, and the scenarios."""
    return [
        (letter, name, _ABOUT.get(letter, ""), [each for each in scenarios() if each.group == letter])
        for letter, name in GROUPS.items()
    ]


def out_of_reach(supplies: Supplies, sandbox: "Sandbox") -> dict[str, str]:
    """Return the ids of the scenarios that cannot be tried with *supplies*, and what each needs."""
    supplied = at_hand(supplies, sandbox.service.profile, on_wire=True)
    needs = {each.id: tuple(name for name in each.needs if name not in supplied) for each in scenarios()}
    return {scenario_id: needs_told(missing) for scenario_id, missing in needs.items() if missing}


def why_not_tried(verdict: Verdict) -> str:
    """Return the reason of *verdict*; if something was not supplied, with the options of the command line for it."""
    if not verdict.missing:
        return verdict.reason
    options = options_for(verdict.missing)
    return needs_told(verdict.missing) + (f". To try it: game-operator certify {options}" if options else "")


def begun(number: int, settings: CertifySettings, sandbox: "Sandbox", *, leaves_bets: bool) -> CertifyRun:
    """Return the run with *number*, before its first call."""
    played, began_millis = in_playing_order(selected(settings.only, ())), time.time_ns() // 1_000_000
    return CertifyRun(number, settings, sandbox.wallet_url or "", began_millis, leaves_bets, played)


def supplies_of(ledger: SqlLedger | None, random_operations: int) -> Supplies:
    """Return what can be supplied here: with the wallet's ledger at hand, new accounts and stored balances too."""
    if ledger is None:
        return Supplies(random_operations=random_operations)
    return Supplies(
        open_account=lambda player_id, cents: ledger.open_account(player_id, amount_from_cents(cents)),
        stored_cents=lambda player_id: int(ledger.balance(player_id)),
        random_operations=random_operations,
    )


def play(run: CertifyRun, job: Job, sandbox: "Sandbox", supplies: Supplies) -> str:
    """Certify the sandbox's wallet; its board of balances believes what both players have afterwards."""
    stopping = Event()
    job.on_interrupt(stopping.set)
    settings, service = run.settings, sandbox.service
    players = settings.player_id, settings.other_player_id
    try:
        run.report = certify(
            run.url,
            signing_key=service.keys.current,
            player_id=settings.player_id,
            other_player_id=settings.other_player_id,
            profile=service.profile,
            only=settings.only,
            supplies=supplies,
            instance_id=settings.instance_id,
            timeout=_TIMEOUT,
            deadline=_DEADLINE,
            moves_money=settings.moves_money,
            on_verdict=lambda verdict, _total: run.verdicts.append(verdict),
            stopping=stopping,
        )
    finally:
        for player_id in players:
            service.balances.accept(player_id)
    return Summary(run.report).headline


def _size_of(exchange: Exchange) -> int:
    headers = (*exchange.request_headers, *exchange.answer_headers)
    texts = sum(len(name) + len(value) for name, value in headers)
    return len(exchange.request_body) + len(exchange.answer_body) + texts + _EXCHANGE_BYTES
