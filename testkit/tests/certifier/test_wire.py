"""What only the wire shows: each cause is named on the first screen, and no money is called lost (spec §2.1, §4.1)."""

import gzip
import re
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from wallet_by_hand import SUCCESS, Account, Call, Case, PlainWallet, Reply

from game_operator_testkit.certifier import Cause, Outcome, Report, Weight
from game_operator_testkit.certifier.report.verdicts import KnownCause
from testkit.tests.certifier.harness import opened, service_key
from testkit.tests.certifier.serving import RIGHT, answering, by_turns, certified_at, say, turning
from testkit.tests.certifier.wrong_wallets import races
from tests.support.hostile_server import Connection, HostileServer, Script, response_bytes

pytestmark = pytest.mark.outside

_ROLLBACK = b"POST /rollback"


def first_of(report: Report) -> Cause:
    """Return what is to be fixed first, of a wallet whose money is right."""
    assert not report.passed
    assert report.money_at_risk == ()
    return report.causes[0]


@pytest.mark.parametrize(
    ("answer", "title", "told"),
    [
        pytest.param(
            response_bytes(308, b"", b"Location: https://wallet.example/withdraw/"),
            "calls are redirected to another address",
            "it redirects to https://wallet.example/withdraw/, and the service follows no redirect",
            id="a redirect",
        ),
        pytest.param(
            response_bytes(200, gzip.compress(RIGHT), b"Content-Encoding: gzip"),
            "answers are compressed",
            "it is compressed (gzip)",
            id="compressed",
        ),
        pytest.param(
            response_bytes(200, b"<html>Welcome</html>", b"Content-Type: text/html"),
            "answers that are not valid replies",
            "Check the address",
            id="a page",
        ),
    ],
)
def test_what_an_answer_is_in_place_of_a_reply(answer: bytes, title: str, told: str) -> None:
    """From the withdraw on."""
    with HostileServer(turning(opened(), 4, say(answer))) as server:
        report = certified_at(server.base_url, only=["A04"])
    cause = first_of(report)
    assert cause.title == title
    assert told in cause.verdict.reason


def _closing(wallet: PlainWallet, numbers: Iterable[int]) -> Script:
    """Return a script that answers as *wallet* does, and closes each connection unanswered after one of *numbers*."""
    left = iter(numbers)

    def script(connection: Connection) -> None:
        last = next(left, 0)

        def send(connection: Connection, data: bytes) -> bool:
            is_sent = connection.send(data)
            if len(connection.requests) != last:
                return is_sent
            connection.read_request()
            connection.close()
            return False

        answering(wallet, send=send)(connection)

    return script


@pytest.mark.parametrize(
    ("numbers", "weight", "told"),
    [
        pytest.param([1] * 10_000, Weight.ADVICE, "number 1, was", id="each after its first answer"),
        pytest.param(
            range(5, 500), Weight.CONTRACT_BROKEN, "others were closed so after 5, ", id="after different numbers"
        ),
    ],
)
def test_connections_that_are_closed_while_they_are_in_use(numbers: Iterable[int], weight: Weight, told: str) -> None:
    """Each call is sent again on a new connection, where it is answered; a limit of calls is advice."""
    wallet = opened()
    with HostileServer(_closing(wallet, numbers)) as server:
        report = certified_at(server.base_url, only=["A"])
    cause = next(each for each in report.causes if each.title == "connections in use are closed without an answer")
    assert (cause.verdict.weight, cause.others) == (weight, ())
    assert report.passed is (weight is Weight.ADVICE)
    assert any(told in each.reason for each in cause.verdict.notes)
    assert '"Connection: close"' in cause.fix
    wallet.close()


def test_what_another_method_leaves_on_its_connection() -> None:
    """A wallet that refuses GET before it reads the body reads that body as the next call."""
    wallet = opened()

    def read(connection: Connection) -> bytes:
        request = connection.read_request()
        if not request.startswith((b"GET", b"PUT")):
            return request
        connection.send(response_bytes(405, b"{}"))
        connection.read_request()
        connection.send(response_bytes(400, b"{}"))
        return b""

    with HostileServer(answering(wallet, read=read)) as server:
        report = certified_at(server.base_url, only=["A02", "F10"])
    first = first_of(report)
    assert (first.title, first.verdict.id) == ("what is left of one call spoils the next one on its connection", "F10")
    assert "by GET, and after it by POST, on its connection: HTTP 400" in first.verdict.reason
    wallet.close()


def _dying(answers: bool, lingers: bool) -> Script:
    """
    Return what serves a wallet until a rollback comes, which it *answers* or not before it is gone.

    If it *lingers*, it accepts one connection more, as a process does that still writes its last words.
    """
    ending = False

    def read(connection: Connection) -> bytes:
        nonlocal ending
        if ending:
            servers[0].accept_no_more()
            connection.reset()
            return b""
        request = connection.read_request()
        if request.startswith(_ROLLBACK):
            ending = lingers
            if not lingers:
                servers[0].accept_no_more()
            if not answers:
                connection.reset()
                return b""
        return request

    def send(connection: Connection, data: bytes) -> bool:
        if not connection.requests[-1].startswith(_ROLLBACK):
            return connection.send(data)
        # Else the next call may be on its way before the connection is closed, and be the one that breaks.
        connection.send(data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        connection.close()
        return False

    return answering(opened(), read=read, send=send)


#: The server that a script stops.
servers: list[HostileServer] = []


@pytest.mark.parametrize(
    ("answers", "lingers", "told"),
    [
        pytest.param(False, False, r"\brollback\b.*: no answer", id="in the middle of the call"),
        pytest.param(False, True, r"\brollback\b.*: no answer", id="a moment after the call"),
        pytest.param(True, False, r"\brollback\b.* was answered", id="after its answer"),
    ],
)
@pytest.mark.parametrize(
    ("first", "also"),
    [
        pytest.param("A04", ["B01", "C01"], id="few"),
        pytest.param("H06", ["A04", "B01", "C01", "C02", "G04"], id="in what comes before all scenarios"),
    ],
)
@pytest.mark.drawn(2)
def test_a_process_that_is_gone_after_a_call(
    answers: bool, lingers: bool, told: str, first: str, also: list[str]
) -> None:
    """The call that it did not survive is named, and not the next one, nor a scenario that was not begun."""
    servers.clear()
    with HostileServer(_dying(answers, lingers)) as server:
        servers.append(server)
        report = certified_at(server.base_url, only=[first, *also], timeout=2)
    cause = first_of(report)
    assert cause.title == "the wallet's process ends"
    assert cause.verdict.id == first
    assert re.search(told, cause.verdict.reason)
    assert "the wallet accepts no connection" in cause.verdict.reason
    decisive = cause.verdict.decisive
    assert decisive is not None
    assert decisive.path == "/rollback"


def test_a_call_that_is_dropped_once_is_no_connection_and_no_process() -> None:
    """A wallet that hangs up on one call, and answers all others, is said to have given no answer."""
    wallet = opened()

    def read(connection: Connection) -> bytes:
        request = connection.read_request()
        if not request.startswith(_ROLLBACK):
            return request
        connection.reset()
        return b""

    with HostileServer(answering(wallet, read=read)) as server:
        report = certified_at(server.base_url, only=["A02", "A04", "A05"])
    assert first_of(report).title == "calls without an answer"
    assert report.verdict("A02").outcome is Outcome.PASSED
    wallet.close()


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
