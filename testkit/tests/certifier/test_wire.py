"""Causes that only the wire shows: each is named on the first screen, and no money is called lost (spec §2.1, §4.1)."""

import gzip
import itertools
import re
from collections.abc import Callable, Iterable

import pytest
from wallet_by_hand import PlainWallet

from game_operator_testkit.certifier import Cause, Outcome, Report, Weight
from testkit.tests.certifier.harness import opened
from testkit.tests.certifier.serving import answering, certified_at, turning
from tests.support.hostile_server import Connection, HostileServer, Script, response_bytes

pytestmark = pytest.mark.outside

_RIGHT = b'{"type":"SUCCESS","balance":1000.00,"timestamp":1750000000000}'
_ROLLBACK = b"POST /rollback"


def first_of(report: Report) -> Cause:
    """Return what is to be fixed first, of a wallet whose money is right."""
    assert not report.passed
    assert report.money_at_risk == ()
    return report.causes[0]


def say(data: bytes) -> Callable[[Connection], None]:
    def script(connection: Connection) -> None:
        connection.send(data)

    return script


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
            response_bytes(200, gzip.compress(_RIGHT), b"Content-Encoding: gzip"),
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
    answered, left = answering(wallet), iter(numbers)

    def script(connection: Connection) -> None:
        send, most = connection.send, itertools.count(1)
        last = next(left, 0)

        def sent(data: bytes) -> bool:
            is_sent = send(data)
            if next(most) != last:
                return is_sent
            connection.read_request()
            connection.close()
            return False

        connection.send = sent  # type: ignore[method-assign]  # To close at the next request.
        answered(connection)

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
    answered = answering(wallet)

    def script(connection: Connection) -> None:
        read = connection.read_request

        def reading() -> bytes:
            request = read()
            if not request.startswith((b"GET", b"PUT")):
                return request
            connection.send(response_bytes(405, b"{}"))
            connection.read_request()
            connection.send(response_bytes(400, b"{}"))
            return b""

        connection.read_request = reading  # type: ignore[method-assign]  # To refuse before the body.
        answered(connection)

    with HostileServer(script) as server:
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
    wallet = opened()
    ending = False

    def script(connection: Connection) -> None:
        if ending:
            servers[0].accept_no_more()
            connection.reset()
            return
        answered = answering(wallet)
        read, send = connection.read_request, connection.send

        def reading() -> bytes:
            nonlocal ending
            request = read()
            if request.startswith(_ROLLBACK):
                ending = lingers
                if not lingers:
                    servers[0].accept_no_more()
                if not answers:
                    connection.reset()
                    return b""
            return request

        def sent(data: bytes) -> bool:
            if not connection.requests[-1].startswith(_ROLLBACK):
                return send(data)
            # Else the next call may be on its way before the connection is closed, and be the one that breaks.
            send(data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            connection.close()
            return False

        connection.read_request, connection.send = reading, sent  # type: ignore[method-assign]  # See above.
        answered(connection)

    return script


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

    def script(connection: Connection) -> None:
        answered = answering(wallet)
        read = connection.read_request

        def reading() -> bytes:
            request = read()
            if request.startswith(_ROLLBACK):
                connection.reset()
                return b""
            return request

        connection.read_request = reading  # type: ignore[method-assign]  # See above.
        answered(connection)

    with HostileServer(script) as server:
        report = certified_at(server.base_url, only=["A02", "A04", "A05"])
    assert first_of(report).title == "calls without an answer"
    assert report.verdict("A02").outcome is Outcome.PASSED
    wallet.close()
