"""Whatever a wallet does, a certification ends in time, and in verdicts."""

import itertools
import json
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from wallet_by_hand import PlainWallet

from game_operator.errors import ConfigurationError, RequestNotSentError
from game_operator.ledger import SqlLedger
from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply
from game_operator_testkit.certifier import Outcome, Report, Weight, scenarios
from game_operator_testkit.certifier.engine import replies
from game_operator_testkit.provider.keys import new_key
from testkit.tests.certifier.harness import (
    OTHER,
    PLAYER,
    Deliver,
    certified_by,
    delivered_to,
    opened,
    supplies_of,
)
from testkit.tests.certifier.serving import RIGHT, certified_at, say, turning
from tests.support.hostile_server import Connection, HostileServer, Script, answer, response_bytes
from tests.support.seeds import random_of
from tests.support.wallet_process import WalletProcess

pytestmark = pytest.mark.outside


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wallet that is gone here does not come back, however long one waits; a test of its own waits for one."""
    monkeypatch.setattr(replies, "_PAUSES_SECONDS", (0.01,))


_GROUPS = "ABCDEFGH"
#: Seconds; generous, for the machine may be busy, and far below what a wallet that hangs would take by itself.
_BOUND = 20.0


def judged(report: Report, groups: str = _GROUPS) -> Report:
    """Hold that *report* is a whole one, of a wallet that did not pass, and that nothing was stumbled over."""
    assert [each.id for each in report.verdicts] == [each.id for each in scenarios() if each.id[0] in groups]
    assert [each.reason for each in report.verdicts if "stumbled" in each.reason] == []
    assert not report.passed
    return report


def hang(connection: Connection) -> None:
    connection.stopping.wait(_BOUND)


_WELCOME = pytest.param(say(response_bytes(200, b"<html>Welcome</html>", b"Content-Type: text/html")), id="HTML")
_EVILS = [
    pytest.param(hang, id="hangs"),
    pytest.param(Connection.reset, id="resets"),
    pytest.param(say(b"\x00\xff garbage\r\n\r\n"), id="garbage"),
    pytest.param(say(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), id="another"),
    _WELCOME,
]


@pytest.mark.parametrize("evil", [each for each in _EVILS if each is not _WELCOME])
@pytest.mark.drawn(5)
def test_a_wallet_that_is_none_is_judged(evil: Callable[[Connection], None]) -> None:
    """From the first call on: every scenario fails, and none takes long."""
    began = time.monotonic()
    with HostileServer(turning(opened(), 0, evil)) as server:
        report = judged(certified_at(server.base_url, timeout=0.1, deadline=10))
    assert time.monotonic() - began < _BOUND
    assert {each.outcome for each in report.verdicts} == {Outcome.FAILED, Outcome.SKIPPED}
    assert {each.weight for each in report.failures} == {Weight.CONTRACT_BROKEN}
    assert [(each.before_cents, each.after_cents) for each in report.moved] == [(None, None)] * 2


@pytest.mark.parametrize("evil", _EVILS)
@pytest.mark.drawn(3)
def test_a_wallet_that_dies_in_the_middle_is_judged(evil: Callable[[Connection], None]) -> None:
    """Right at first, and then not: what was tried before has passed, and what comes after fails."""
    began = time.monotonic()
    with HostileServer(turning(opened(), 40, evil)) as server:
        report = judged(certified_at(server.base_url, timeout=0.3, deadline=10))
    assert time.monotonic() - began < _BOUND
    assert report.verdict("A01").outcome is Outcome.PASSED
    assert report.verdict("D01").failed
    assert [each.before_cents for each in report.moved] == [100_000, 100_000]


def test_a_wallet_that_is_killed_is_judged(tmp_path: Path) -> None:
    """Its port is closed then, and nothing more can be sent."""
    service_key, database = new_key(), f"sqlite:///{tmp_path / 'wallet.db'}"
    with WalletProcess(database, service_key, tmp_path) as wallet:
        with SqlLedger(database) as ledger:
            for player_id in (PLAYER, OTHER):
                ledger.open_account(player_id, Decimal("100.00"))
        report = judged(
            certified_at(
                f"http://127.0.0.1:{wallet.port}",
                signing_key=service_key,
                on_verdict=lambda verdict, _: wallet.kill() if verdict.id == "A01" else None,
            )
        )
    assert report.verdict("A01").outcome is Outcome.PASSED
    assert any("Connection refused" in each.reason for each in report.failures)
    assert report.verdict("H05").reason == "not begun: the wallet gave no answer in the last 3 scenarios"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param(answer(response_bytes(404, b"nothing here")), "is not a wallet: .* HTTP 404", id="404"),
        pytest.param(
            answer(response_bytes(200, b'{"type":"ERROR","code":"PLAYER_NOT_FOUND"}')),
            "does not know the player",
            id="nobody",
        ),
        pytest.param(
            answer(response_bytes(401, b'{"type":"ERROR","code":"INVALID_SIGNATURE"}')),
            "signature is wrong",
            id="another key",
        ),
        pytest.param(answer(response_bytes(401, b"<html>Log in")), "turned away with HTTP 401", id="a login"),
        pytest.param(answer(response_bytes(200, b" <html>Hi")), "HTTP 200 and a web page. Pass the", id="a page"),
        pytest.param(
            answer(response_bytes(200, b'{"type":"ERROR","code":"SYSTEM_ERROR"}')),
            "The wallet fails",
            id="out of order",
        ),
        pytest.param(answer(response_bytes(200, RIGHT.replace(b"1000.00", b"-5.00"))), "has -5.00", id="in debt"),
    ],
)
def test_what_makes_no_sense_to_certify_is_told(script: Script, message: str) -> None:
    """A wrong address, key or player is the caller's mistake, and told before anything is moved."""
    with HostileServer(script) as server, pytest.raises(ConfigurationError, match=message):
        certified_at(server.base_url, timeout=5)


def test_nobody_is_there() -> None:
    """Nothing was sent, and what to look at is told."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    address = rf"^http://127.0.0.1:{port}/player-balance cannot be reached: .*"
    with pytest.raises(RequestNotSentError, match=rf"{address}Connection refused.*never left") as raised:
        certified_at(f"http://127.0.0.1:{port}", timeout=1)
    assert not raised.value.timed_out


# Answers that are HTTP, and say odd things; in process, for they are many.


def judged_by(deliver: Deliver, wallet: PlainWallet, groups: str = _GROUPS) -> Report:
    return judged(
        certified_by(
            deliver,
            only=[*groups],
            profile=Profile(deposit_batch=True),
            supplies=replace(supplies_of(wallet), second_url=deliver),
        ),
        groups,
    )


def _body(**members: object) -> bytes:
    return json.dumps(members).encode()


_ODD = {
    "nothing": b"",
    "null": b"null",
    "an array": b"[]",
    "no JSON": b"SUCCESS",
    "no type": _body(balance=1, timestamp=1),
    "a balance that is a string": _body(type="SUCCESS", balance="1000.00", timestamp=1),
    "a balance that is null": _body(type="SUCCESS", balance=None, timestamp=1),
    "a balance that is NaN": b'{"type":"SUCCESS","balance":NaN,"timestamp":1}',
    "a balance finer than a cent": b'{"type":"SUCCESS","balance":0.001,"timestamp":1}',
    "no time": _body(type="SUCCESS", balance=1000.0),
    "a time in seconds": _body(type="SUCCESS", balance=1000.0, timestamp=1),
    "always the same": RIGHT,
    "no code": _body(type="ERROR"),
    "a code of its own": _body(type="ERROR", code="COMPUTER_SAYS_NO"),
    "a code without end": _body(type="ERROR", code="X" * 100_000),
    "no balance with the code that needs one": _body(type="ERROR", code="INSUFFICIENT_BALANCE"),
    "fails": _body(type="ERROR", code="SYSTEM_ERROR"),
    "limits": _body(type="ERROR", code="LIMIT_EXCEEDED", balance=1000.0, timestamp=1),
}


#: Alone they are alike to a scenario: no reply. All of them come now and then below.
_UNREADABLE = {"null", "an array", "no JSON", "no type", "a balance that is null", "a balance that is NaN"}


@pytest.mark.parametrize("odd", [pytest.param(body, id=name) for name, body in _ODD.items() if name not in _UNREADABLE])
@pytest.mark.drawn(3)
def test_odd_answers_to_all_that_moves_money(odd: bytes) -> None:
    """Balances are told as they should be, and all else is odd: scenarios get far, and stumble over nothing."""
    wallet = opened()
    answering = delivered_to(wallet)

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        return answering(path, headers, body) if path == "/player-balance" else HttpReply(200, {}, odd)

    judged_by(deliver, wallet)
    wallet.close()


@pytest.mark.parametrize(
    ("balance", "calls_before", "outcome", "told"),
    [
        pytest.param(b"92233720368547758.07", 30, Outcome.FAILED, "which no call could move", id="huge"),
        pytest.param(b"0.19", 31, Outcome.FAILED, "it still returns 0.19 for player-1", id="a cent too little"),
        pytest.param(b"-3.00", 31, Outcome.FAILED, "it still returns -3.00 for player-1", id="in debt"),
        pytest.param(b"0.19", 30, Outcome.SKIPPED, "0.19 left of what was tried", id="of who has not bet"),
    ],
)
def test_a_balance_that_turns_odd(balance: bytes, calls_before: int, outcome: Outcome, told: str) -> None:
    """
    In the middle of a run, for no reason that anybody could see: what cannot be tried any more says why.

    Beside the answer to a movement, the check is what is wrong; without one, the balance may be.
    """
    wallet = opened()
    answering, calls = delivered_to(wallet), itertools.count()

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        answer = answering(path, headers, body)
        if next(calls) < calls_before or path != "/player-balance":
            return answer
        return HttpReply(200, {}, RIGHT.replace(b"1000.00", balance))

    report = judged_by(deliver, wallet, "ADH")
    assert report.verdict("H05").outcome is outcome
    assert told in report.verdict("H05").reason
    wallet.close()


def _chaos(seed: int, wallet: PlainWallet) -> Deliver:
    chance, calls = random_of(seed), itertools.count()
    answering = delivered_to(wallet)

    def deliver(path: str, headers: Mapping[str, str], body: bytes) -> HttpReply:
        right = answering(path, headers, body)
        if next(calls) < 4 or chance.random() < 0.9:
            return right
        if chance.random() < 0.2:
            raise ConnectionError("the wallet fell over")
        return HttpReply(chance.choice([200, 200, 201, 404, 500]), {}, chance.choice([*_ODD.values()]))

    return deliver


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.drawn(1)
def test_odd_answers_now_and_then(seed: int) -> None:
    """A right wallet behind something that spoils every tenth answer: no scenario stumbles, wherever it happens."""
    wallet = opened()
    judged_by(_chaos(seed, wallet), wallet)
    wallet.close()
