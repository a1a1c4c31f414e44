"""Wallets of two processes behind one address: which of them serves a call depends on its connection."""

from contextlib import closing
from pathlib import Path

import pytest
from wallet_by_hand import SUCCESS, Account, Call, Case, PlainWallet, Reply

from game_operator_testkit.certifier.report.verdicts import KnownCause
from testkit.tests.certifier.harness import opened, service_key
from testkit.tests.certifier.serving import by_turns, certified_at
from testkit.tests.certifier.wrong_wallets import races
from tests.support.hostile_server import HostileServer

pytestmark = pytest.mark.outside


class RemembersBalances(PlainWallet):
    """Answers balance checks by the last balance that its own process has returned."""

    def _carry_out(self, call: Call) -> Reply:
        known: dict[str, Reply] = self.__dict__.setdefault("_known", {})
        if call.operation == "player-balance" and call.player_id in known:
            return Reply(SUCCESS, known[call.player_id].cents, self.clock_millis())
        reply = super()._carry_out(call)
        if reply.cents is not None:
            known[call.player_id] = reply
        return reply


class RemembersAccounts(PlainWallet):
    """Keeps each account in its own process's memory, and writes what it has there."""

    def _find_account(self, player_id: str) -> Account | None:
        known: dict[str, Account] = self.__dict__.setdefault("_known", {})
        account = known.get(player_id) or super()._find_account(player_id)
        if account is not None:
            known[player_id] = account
        return account

    def _move(self, case: Case, player_id: str, cents: int) -> None:
        super()._move(case, player_id, cents)
        del self.__dict__["_known"][player_id]
        self._find_account(player_id)


@pytest.mark.parametrize(
    ("kind", "scenarios", "cause"),
    [
        pytest.param(PlainWallet, ["A08", "D01", "D06"], None, id="right"),
        pytest.param(races.RemembersBets, ["A08", "D01", "D06"], KnownCause.OF_A_PROCESS, id="bets"),
        pytest.param(RemembersBalances, ["A08", "D01", "D06"], KnownCause.LAGGING, id="balances"),
        pytest.param(RemembersBalances, ["D06"], KnownCause.LAGGING, id="balances, by calls in turn alone"),
        pytest.param(RemembersAccounts, ["D06"], KnownCause.TWO_MEMORIES, id="accounts"),
    ],
)
def test_two_processes_behind_one_address(
    kind: type[PlainWallet], scenarios: list[str], cause: KnownCause | None, tmp_path: Path
) -> None:
    """What each remembers for itself is named: a balance that is only told is no lost money (spec §3, §4.1)."""
    file = str(tmp_path / "wallet.db")
    first_one, second_one = opened(kind, database=file), kind([service_key().public_key()], database=file)
    with closing(first_one), closing(second_one), HostileServer(by_turns(first_one, second_one)) as server:
        report = certified_at(server.base_url, only=scenarios)
    first = report.causes[0].verdict.notes[0].cause if report.causes else None
    assert first == cause, [(each.id, each.reason) for each in report.failures]
