"""Faults after which service and wallet differ until they are reconciled: what is not sent, and what is sent late."""

import asyncio
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from game_operator.codes import BetState
from game_operator.errors import ConfigurationError, TransportError
from game_operator.models import BetNotFound, ClosedBet, RolledBackBet, RoundFound
from game_operator.models.webhooks import DepositCall, MovingCall, RollbackCall
from game_operator.profile import Profile
from game_operator.wallet import Wallet
from game_operator_testkit.provider.delivery import Answer, Post
from game_operator_testkit.provider.faults import API_FAULTS, LASTING_FAULTS, Fault, FaultPlan
from game_operator_testkit.provider.keys import ThrowAwayKeys
from game_operator_testkit.sandbox.dealing.carrying import play
from game_operator_testkit.sandbox.dealing.dealer import Dealer
from game_operator_testkit.sandbox.dealing.dealt import DealtBet, ServiceState
from game_operator_testkit.sandbox.dealing.plan import BetEnd, PlannedClaim
from game_operator_testkit.sandbox.in_process import InProcessSandbox
from game_operator_testkit.sandbox.storm.audit import Closing, audit
from testkit.tests.sandbox.dealing import OPENING_CENTS, InProcess, bet, deal, disagreements, faults, problems, round_of
from testkit.tests.sandbox.storming import storm, storm_of_ledger
from testkit.tests.sandbox.wrong_wallets import LeavesLossesOpen, PaysRepeatsTwice, RightWallet
from tests.support.times import StoppedClock

WAGER, WON = 500, 1_250
KEYS = ThrowAwayKeys()
LOST, HELD, SILENT, OTHER = LASTING_FAULTS


def dealt_bet(dealer: Dealer) -> DealtBet:
    (dealt,) = dealer.dealt
    assert isinstance(dealt, DealtBet)
    return dealt


def release(dealer: Dealer, courier: InProcess, *, lost: bool) -> None:
    dealer.release(lost=lost)
    asyncio.run(play(dealer, courier.post))


# --- one bet ----------------------------------------------------------------------------------------------------------

KEPT_BACK = [
    pytest.param(LOST, BetEnd.CLOSED, ServiceState.CLOSED, id="a deposit is lost"),
    pytest.param(LOST, BetEnd.ROLLED_BACK, ServiceState.ROLLED_BACK, id="a rollback is lost"),
    pytest.param(HELD, BetEnd.CLOSED, ServiceState.CLOSED, id="a deposit is held"),
    pytest.param(HELD, BetEnd.ROLLED_BACK, ServiceState.ROLLED_BACK, id="a rollback is held"),
    pytest.param(SILENT, BetEnd.CLOSED, ServiceState.ROLLED_BACK, id="cancelled in silence"),
]


@pytest.mark.parametrize(("fault", "end", "state"), KEPT_BACK)
def test_a_settlement_that_is_kept_back(fault: Fault, end: BetEnd, state: ServiceState) -> None:
    """The bet is over for the service and OPEN at the wallet, which was sent its withdraw alone."""
    courier, jackpot_cents = InProcess(), 70_000 if end is BetEnd.CLOSED else 0
    dealer = deal(courier, round_of(bet(end=end, jackpot_cents=jackpot_cents)), plan=faults(fault))
    dealt = dealt_bet(dealer)
    assert (dealt.state, dealt.unsent, dealt.problems) == (state, fault, [])
    assert courier.code_of("b1") == "OPEN"
    assert [post.path for post, _, _ in courier.posts] == ["/withdraw"]
    assert dealer.faults.struck == {fault: 1}
    assert len(disagreements(dealer, courier)) == 2


@pytest.mark.parametrize(("fault", "end", "state"), KEPT_BACK)
def test_what_was_kept_back_is_sent_late(fault: Fault, end: BetEnd, state: ServiceState) -> None:
    """What was held by itself, what was lost only if that is asked for; then both sides agree, and nothing is left."""
    courier = InProcess()
    dealer = deal(courier, round_of(bet(end=end)), plan=faults(fault))
    release(dealer, courier, lost=False)
    assert len(courier.posts) == (2 if fault is HELD else 1)
    release(dealer, courier, lost=True)
    assert len(courier.posts) == 2
    call = courier.posts[1][0].calls[0]
    assert isinstance(call, DepositCall if state is ServiceState.CLOSED else RollbackCall)
    assert (dealer.unsent, dealt_bet(dealer).unsent) == ([], None)
    assert not problems(dealer) + disagreements(dealer, courier)
    release(dealer, courier, lost=True)
    assert len(courier.posts) == 2


@pytest.mark.parametrize("fault", [LOST, HELD, SILENT])
@pytest.mark.parametrize("early", [Fault.EARLY_DEPOSIT, Fault.EARLY_ROLLBACK])
def test_what_is_kept_back_overtakes_nothing(fault: Fault, early: Fault) -> None:
    """A settlement that is not sent cannot arrive before its withdraw."""
    end = BetEnd.CLOSED if early is Fault.EARLY_DEPOSIT else BetEnd.ROLLED_BACK
    courier = InProcess()
    dealer = deal(courier, round_of(bet(end=end)), plan=faults(fault, early))
    possible = end is BetEnd.CLOSED or fault is not SILENT
    assert dealer.faults.struck == ({fault: 1} if possible else {early: 1})
    assert courier.posts[0][0].path == ("/withdraw" if possible else "/rollback")


def test_the_strongest_of_several_faults_strikes() -> None:
    """One bet is kept back for one reason."""
    courier = InProcess()
    dealer = deal(courier, round_of(bet()), plan=faults(*LASTING_FAULTS))
    assert dealer.faults.struck == {SILENT: 1}
    assert dealt_bet(dealer).won_cents == WON


@pytest.mark.parametrize(
    ("won", "reported"),
    [
        pytest.param(WON, WON // 2, id="half of a win"),
        pytest.param(1, 0, id="nothing of a cent"),
        pytest.param(0, WAGER, id="the wager of a loss"),
    ],
)
def test_another_win_at_the_service(won: int, reported: int) -> None:
    """The deposit pays what was won; the service reports something else."""
    courier = InProcess()
    dealer = deal(courier, round_of(bet(won_cents=won)), plan=faults(OTHER))
    dealt = dealt_bet(dealer)
    assert (dealt.state, dealt.won_cents, dealt.unsent) == (ServiceState.CLOSED, reported, None)
    assert dealer.faults.struck == {OTHER: 1}
    record = courier.ledger.bet("b1")
    assert record is not None
    assert (record.state, record.won_cents) == (BetState.CLOSED, won)
    assert courier.ledger.balance("p1") == OPENING_CENTS - WAGER + won


def test_a_refused_bet_is_not_struck() -> None:
    """There is nothing to settle."""
    courier = InProcess(opening={"p1": WAGER - 1})
    dealer = deal(courier, round_of(bet()), plan=faults(LOST, OTHER))
    assert dealt_bet(dealer).state is ServiceState.REFUSED
    assert (dealer.unsent, dealer.faults.struck) == ([], {})


class _Gone(InProcess):
    """A wallet that cannot be reached while ``gone``."""

    gone = False

    async def post(self, post: Post) -> tuple[Answer, ...]:
        if self.gone:
            raise TransportError("The wallet has gone", attempts=1, elapsed_seconds=0.0)
        return await super().post(post)


def test_what_could_not_be_sent_late_may_be_sent_again() -> None:
    """A wallet that is down at that moment loses nothing."""
    courier = _Gone()
    dealer = deal(courier, round_of(bet(1), bet(2), bet(3)), plan=faults(HELD))
    courier.gone = True
    with pytest.raises(TransportError):
        release(dealer, courier, lost=False)
    dealer.abandon()
    courier.gone = False
    release(dealer, courier, lost=False)
    assert not problems(dealer) + disagreements(dealer, courier)
    assert len(courier.posts) == 6


def test_a_late_call_that_the_wallet_refuses_is_no_mistake() -> None:
    """The operator may have settled the bet: only the books show what is wrong then."""
    courier = InProcess()
    dealer = deal(courier, round_of(bet()), plan=faults(HELD))
    # The operator believes that it is cancelled.
    assert courier.ledger.apply(bet().rollback()).applied
    release(dealer, courier, lost=False)
    assert not problems(dealer)
    assert disagreements(dealer, courier)


def test_old_seeds_play_the_same() -> None:
    """The new faults are drawn for after the old ones: what struck before strikes still."""
    old = [fault for fault in Fault if fault not in LASTING_FAULTS]
    assert list(Fault)[: len(old)] == old
    draws = [f"7:{number}" for number in range(1, 1_000)]
    plan, more = FaultPlan(dict.fromkeys(old, 0.1)), FaultPlan(dict.fromkeys(Fault, 0.1))
    struck = [list(map(str, plan.struck(draw, Fault))) for draw in draws]
    assert sha256(repr(struck).encode()).hexdigest()[:16] == "455f2d06edab1e93"
    assert [list(map(str, more.struck(draw, old))) for draw in draws] == struck
    assert not set(LASTING_FAULTS) & set(API_FAULTS)


# --- the audit --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_ledger", [True, False], ids=["by the ledger", "by balances"])
@pytest.mark.parametrize(("fault", "end", "state"), KEPT_BACK)
def test_a_bet_that_was_left_open_is_expected(
    fault: Fault, end: BetEnd, state: ServiceState, with_ledger: bool
) -> None:
    """With what is owed; any other state or balance is the wallet's."""
    courier = InProcess()
    dealer = deal(courier, round_of(bet(end=end)), plan=faults(fault))
    (found,) = _audited(dealer, courier, with_ledger=with_ledger)
    owed = WON if state is ServiceState.CLOSED else WAGER
    assert (found.subject, found.fault, found.gap_cents) == ("bet b1", fault, -owed)
    # A cent that nobody asked for is not explained.
    courier.ledger.adjust("p1", Decimal("0.01"), reference="slip")
    assert any(one.fault is None for one in _audited(dealer, courier, with_ledger=with_ledger))


def _audited(dealer: Dealer, courier: InProcess, *, with_ledger: bool) -> list[Any]:
    bets = {each.bet_id: each for each in courier.ledger.bets()} if with_ledger else None
    closing = Closing({"p1": int(courier.ledger.balance("p1"))}, bets)
    return audit(dealer.dealt, {"p1": OPENING_CENTS}, closing, {})


@pytest.mark.parametrize("settled", ["as the service says", "as a loss", "as a refund"])
def test_a_bet_that_somebody_settled(settled: str) -> None:
    """As the service has it there is no difference left; otherwise it is a difference that no fault explains."""
    courier = InProcess()
    dealer = deal(courier, round_of(bet()), plan=faults(LOST))
    calls: dict[str, MovingCall] = {
        "as the service says": bet().deposit(WON),
        "as a loss": bet().deposit(0),
        "as a refund": bet().rollback(),
    }
    assert courier.ledger.apply(calls[settled]).applied
    found = _audited(dealer, courier, with_ledger=True)
    assert (found == []) is (settled == "as the service says")
    assert not any(one.fault for one in found)


@pytest.mark.parametrize("with_ledger", [True, False], ids=["by the ledger", "by balances"])
def test_another_win_is_expected_with_its_amount(with_ledger: bool) -> None:
    """Too much was paid, by the service's word."""
    courier = InProcess()
    dealer = deal(courier, round_of(bet()), plan=faults(OTHER))
    (found,) = _audited(dealer, courier, with_ledger=with_ledger)
    assert (found.fault, found.gap_cents) == (OTHER, WON - WON // 2)


# --- storms -----------------------------------------------------------------------------------------------------------

MIXED = "settlement-lost=0.03,settlement-held=0.02,silent-rollback=0.01,other-won=0.02,duplicate=0.05,reply-lost=0.05"


@pytest.fixture(params=["sqlite", "postgres"])
def ledger_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database of each kind."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'wallet.db'}"


@pytest.mark.slow
@pytest.mark.parametrize("audit", ["ledger", "balances"])
def test_a_storm_with_lasting_faults_passes(audit: str) -> None:
    """A right wallet is not blamed: what differs is what was asked for, and the report says how much is owed."""
    report, _ = storm(audit=audit, bets=400, faults=MIXED)
    assert report.passed, report.differences
    struck = {fault: report.faults[fault] for fault in LASTING_FAULTS}
    assert all(struck.values())
    if audit == "ledger":
        found = {fault: sum(one.fault is fault for one in report.lasting) for fault in LASTING_FAULTS}
        assert found == struck
        assert len(report.left_open) == struck[LOST] + struck[HELD] + struck[SILENT]
        assert report.owed_cents == sum(-one.gap_cents for one in report.left_open) > 0
        assert len(report.other_won) == struck[OTHER]


@pytest.mark.slow
@pytest.mark.parametrize("wallet", [PaysRepeatsTwice, LeavesLossesOpen])
def test_a_bug_does_not_hide_behind_lasting_faults(wallet: type[RightWallet]) -> None:
    """What the wallet did wrong is no expected difference."""
    report, _ = storm(wallet, bets=200, faults=MIXED)
    assert not report.passed
    assert report.differences
    assert report.left_open


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_batch_takes_along_nothing_that_is_kept_back(concurrency: int) -> None:
    """Deposits that are due together go in a batch, without those of struck bets."""
    report, courier = storm(bets=250, profile=Profile(deposit_batch=True), faults=MIXED, concurrency=concurrency)
    assert report.passed, report.differences
    assert len(report.left_open) > 5
    in_batches = {call.bet_id for post, _, _ in courier.posts if len(post.calls) > 1 for call in post.calls}
    assert in_batches
    assert in_batches.isdisjoint(one.subject.removeprefix("bet ") for one in report.left_open)


@pytest.mark.slow
@pytest.mark.outside
@pytest.mark.drawn(1)
def test_a_storm_is_audited_again_after_late_calls(ledger_url: str) -> None:
    """SQLite and PostgreSQL: differences, fewer after the held calls, only other wins after the lost ones."""
    with storm_of_ledger(ledger_url, bets=250, faults=MIXED) as (stormed, ledger):
        with pytest.raises(ConfigurationError, match="Call run"):
            stormed.differences()
        report = stormed.run()
        assert report.passed, report.differences
        assert {str(one) for one in stormed.differences()} == {str(one) for one in report.lasting}
        with InProcessSandbox(seed=3, keys=KEYS) as sandbox:
            stormed.record_in(sandbox)
            sandbox.wallet = Wallet(ledger)
            for lost, left in ((False, {LOST, SILENT, OTHER}), (True, {OTHER})):
                sent = sandbox.release_held(lost=lost)
                assert sent
                assert {one.code for one in sent} == {None}
                assert {one.fault for one in stormed.differences()} == left
            assert sandbox.release_held(lost=True) == ()
        assert ledger.verify().sound


@pytest.mark.slow
def test_a_storm_is_reconciled_by_hand_and_hears_late_calls(sqlite_url: str, clock: StoppedClock) -> None:
    """Looked up by a client and applied: no difference of bets is left; what comes late moves no money."""
    with storm_of_ledger(sqlite_url, bets=150, faults="settlement-lost=0.08,settlement-held=0.08") as (stormed, ledger):
        stormed.run()
        with InProcessSandbox(seed=3, clock=clock, keys=KEYS) as sandbox, sandbox.client() as client:
            stormed.record_in(sandbox)
            sandbox.wallet = Wallet(ledger)
            settled = 0
            for dealt in stormed.dealt:
                record = ledger.bet(dealt.key)
                if not isinstance(dealt, DealtBet) or record is None or record.state is not BetState.OPEN:
                    continue
                # The calls of the provider itself, so that its late ones are repeats.
                found = client.fetch_bet(dealt.key)
                if isinstance(found, ClosedBet):
                    settled += ledger.apply(dealt.planned.deposit(found.won)).applied
                elif isinstance(found, RolledBackBet):
                    settled += ledger.apply(dealt.planned.rollback()).applied
            assert settled == sum(isinstance(each, DealtBet) and bool(each.unsent) for each in stormed.dealt) > 10
            assert stormed.differences() == ()
            before = {player: ledger.balance(player) for player in stormed.head.opening}
            deliveries = sandbox.release_held(lost=True)
            assert len(deliveries) == settled
            assert {player: ledger.balance(player) for player in stormed.head.opening} == before
            assert stormed.differences() == ()
            assert sandbox.release_held(lost=True) == ()


@pytest.mark.slow
def test_a_sandbox_answers_for_the_rounds_of_a_storm(sqlite_url: str, clock: StoppedClock) -> None:
    """With all bets of several players, strangers' bets, and the free bets of claims if that is asked for."""
    with (
        storm_of_ledger(sqlite_url, bets=150, faults="settlement-lost=0.05") as (stormed, ledger),
        InProcessSandbox(seed=3, clock=clock, keys=KEYS) as sandbox,
        sandbox.client() as client,
    ):
        with pytest.raises(ConfigurationError, match="Call run"):
            stormed.record_in(sandbox)
        stormed.run()
        stormed.record_in(sandbox, strangers=2, free_bets=True)
        bets = [each for each in stormed.dealt if isinstance(each, DealtBet)]
        claim = next(each for each in stormed.dealt if each.state is ServiceState.PAID)
        players: set[str] = set()
        for dealt in bets[:40]:
            planned = dealt.planned
            found = client.fetch_round_bets(instance_id=planned.instance_id or "", round_id=planned.round_id)
            assert isinstance(found, RoundFound)
            assert client.fetch_round_bets(instance_id=found.instance_id, round_no=found.round_no) == found
            strangers = [each for each in found.bets if each.player_id.startswith("stranger-")]
            assert len(strangers) == 2
            assert {ledger.bet(each.reference_id) for each in strangers} == {None}
            assert isinstance(client.fetch_bet(strangers[0].reference_id), BetNotFound)
            ours = {each.key: each for each in bets if each.planned.round_id == planned.round_id}
            placed = {key for key, each in ours.items() if each.state is not ServiceState.REFUSED}
            assert {each.reference_id for each in found.bets if each not in strangers} == placed
            players |= {each.player_id for each in found.bets}
        assert len(players) > 10
        assert isinstance(claim.planned, PlannedClaim)
        free = client.fetch_round_bets(instance_id=claim.planned.instance_id, round_id=claim.planned.round_id)
        assert isinstance(free, RoundFound)
        assert [each.reference_id for each in free.bets] == [each.id for each in claim.planned.bets]
        assert sum(each.won for each in free.bets if isinstance(each, ClosedBet)) == claim.planned.won_cents
        # The sandbox's own instances stay.
        assert sandbox.instance_id in {each.id for game in client.fetch_games() for each in game.instances}
