"""The earliest calls of a storm, sent once more at its end: wallets that forget are found."""

from collections import Counter
from functools import partial

import pytest

from game_operator.ledger import MemoryLedger
from game_operator.models.webhooks import DepositCall, MovingCall, Reply, RollbackCall, WithdrawCall
from testkit.tests.sandbox.dealing import InProcess
from testkit.tests.sandbox.storming import AUDITS, head_of, slips_of, storm, wallet_in_process
from testkit.tests.sandbox.wrong_wallets import WrongWallet

_MOST = "game_operator_testkit.sandbox.storm.storm._MOST_AGAIN"
#: No repeat of a network is as old.
_REMEMBERED = 100


class Forgetful(WrongWallet):
    """Remembers the last hundred calls: one that is older is carried out anew, if it is of the class *forgotten*."""

    def __init__(self, ledger: MemoryLedger, forgotten: type[MovingCall] = WithdrawCall) -> None:
        super().__init__(ledger)
        self._forgotten = forgotten
        self._calls: dict[tuple[str, str | None], int] = {}
        self._count = 0

    def withdraw(self, call: WithdrawCall) -> Reply:
        """Debit again if it is forgotten."""
        return self._remembered(call, super().withdraw(call), -call.amount_cents)

    def deposit(self, call: DepositCall) -> Reply:
        """Pay a claim again if it is forgotten."""
        return self._remembered(call, super().deposit(call), call.amount_cents if call.is_claim else 0)

    def rollback(self, call: RollbackCall) -> Reply:
        """Refund again if it is forgotten."""
        return self._remembered(call, super().rollback(call), call.amount_cents or 0)

    def _remembered(self, call: MovingCall, reply: Reply, cents: int) -> Reply:
        self._count += 1
        first = self._calls.setdefault((call.operation, call.tx_id), self._count)
        if self._count - first <= _REMEMBERED or not isinstance(call, self._forgotten) or reply.code or not cents:
            return reply
        return self._forgot(call, reply, cents)

    def _forgot(self, call: MovingCall, reply: Reply, cents: int) -> Reply:
        self.slip(call, cents)
        return reply


class FailsInOldRepeats(Forgetful):
    """Violates a constraint, and moves nothing."""

    def _forgot(self, call: MovingCall, reply: Reply, cents: int) -> Reply:
        self.slip(call)
        return Reply(code="SYSTEM_ERROR", balance_cents=reply.balance_cents)


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize(
    ("forgotten", "is_too_much"),
    [
        pytest.param(WithdrawCall, False, id="withdraws"),
        pytest.param(DepositCall, True, id="claims"),
        pytest.param(RollbackCall, True, id="rollbacks"),
    ],
)
@pytest.mark.drawn(3)
def test_a_wallet_that_forgets_is_found(
    forgotten: type[MovingCall], is_too_much: bool, audit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the audit of each player whose call was forgotten, to the cent; without the calls at the end it passes."""
    wallet = partial(Forgetful, forgotten=forgotten)
    report, courier = storm(wallet, audit=audit)
    assert not report.passed
    moved = [one for one in report.differences if one.subject.startswith("player ")]
    assert {one.gap_cents > 0 for one in moved} == {is_too_much}
    slips = slips_of(courier)
    assert slips
    for one in moved:
        assert any(bet_id in "\n".join(one.history) for bet_id in slips)
    monkeypatch.setattr(_MOST, 0)
    assert storm(wallet, audit=audit)[0].passed


def test_a_wallet_that_fails_in_old_repeats_is_found() -> None:
    """It moves nothing, and the service never learns what became of the call."""
    report, courier = storm(FailsInOldRepeats)
    told = {one.subject.partition(" ")[2]: one.wallet for one in report.differences}
    assert told.keys() == slips_of(courier) != set()
    for problem in told.values():
        assert problem.startswith("one withdraw, sent again at the end, had no definite answer: SYSTEM_ERROR")


def _again(courier: InProcess) -> list[MovingCall]:
    """Return the calls that were sent more than once, of a storm without faults."""
    counts = Counter(post.call for post, *_ in courier.posts)
    return [call for call, count in counts.items() if count > 1]


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 16])
def test_which_calls_are_sent_again(concurrency: int) -> None:
    """The first fifty withdraws and rollbacks and claims, once; deposits of bets are not, and nobody minds."""
    head = head_of(bets=400)
    report, courier = storm(courier=wallet_in_process(head), concurrency=concurrency, bets=400)
    assert report.passed
    again = _again(courier)
    kinds = Counter("claim" if isinstance(call, DepositCall) else call.operation for call in again)
    assert kinds["withdraw"] == 50
    assert 0 < kinds["rollback"] <= 50
    assert 0 < kinds["claim"] <= 50
    assert all(call.is_claim for call in again if isinstance(call, DepositCall))
    assert kinds.keys() == {"withdraw", "rollback", "claim"}
