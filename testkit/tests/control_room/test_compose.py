"""Edit, sign and send: a webhook by hand, from Live to the wallet and back into Live."""

from collections.abc import Iterator

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator.ledger import MemoryLedger
from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from testkit.tests.control_room.support import form_token, page, play
from testkit.tests.control_room.test_live import recorded

pytestmark = pytest.mark.outside

ASK = {"path": "/player-balance", "body": '{"player_id":"p1"}', "key": "service"}


@pytest.fixture
def nowhere(public_key: RSAPublicKey) -> Iterator[httpx.Client]:
    """A client of a control room whose wallet is not there."""
    with (
        Sandbox(operator_public_key=public_key, wallet_url="http://127.0.0.1:9", control_room=ControlRoom) as sandbox,
        httpx.Client(base_url=sandbox.base_url, trust_env=False, verify=False, timeout=20) as http,
    ):
        yield http


def submitted(http: httpx.Client, address: str = "/live/compose", **fields: str) -> httpx.Response:
    """Send the form."""
    return http.post(address, data={"form_token": form_token(http)} | ASK | fields)


def sent(sandbox: Sandbox, http: httpx.Client, address: str = "/live/compose", **fields: str) -> Exchange:
    """Send a call by the form, and return what the log has of it."""
    response = submitted(http, address, **fields)
    newest = sandbox.live.recent(1)[0]
    assert (response.status_code, response.headers.get("location")) == (303, f"/live/{newest.number}"), response.text
    return newest


def test_a_call_is_edited_signed_and_sent(sandbox: Sandbox, http: httpx.Client, ledger: MemoryLedger) -> None:
    """The form begins with the call's bytes; the wallet takes the edited ones, and no balance is called wrong."""
    play(http)
    withdraw = sandbox.live.recent(2)[1]
    address = f"/live/compose?from={withdraw.number}"
    assert address in page(http, f"/live/{withdraw.number}").values("href")
    form = page(http, address)
    assert withdraw.request_body.decode() in form.text
    assert "/withdraw" in form.values("value")
    before = ledger.balance("p1")
    edited = withdraw.request_body.decode().replace(withdraw.bet_id, "by-hand-1")
    exchange = sent(sandbox, http, address, path="/withdraw", body=edited)
    assert exchange.request_body == edited.encode()
    assert (exchange.code, exchange.signature, exchange.bet_id) == ("SUCCESS", "valid", "by-hand-1")
    assert exchange.note == f"number {withdraw.number}; edited by hand"
    assert ledger.balance("p1") == before - 100
    play(http)
    assert not sandbox.service.balances.disagrees()
    assert "edited by hand" in page(http, "/live").text
    again = sandbox.redeliver(exchange.number)
    assert again.note == f"number {exchange.number}, delivered again; edited by hand"


def test_a_call_by_hand_says_nothing_of_a_bet(sandbox: Sandbox, http: httpx.Client) -> None:
    """The service does not know it: a refusal of it is not a refusal of the bet."""
    play(http)
    deposit = sandbox.live.recent(1)[0]
    headline = page(http, f"/bets?id={deposit.bet_id}").text
    assert "The wallet has confirmed that." in headline
    sent(sandbox, http, path="/deposit", body=deposit.request_body.decode().replace("250", "251"))
    after = page(http, f"/bets?id={deposit.bet_id}")
    assert "The wallet has confirmed that." in after.text
    assert "written by hand" in after.text


@pytest.mark.parametrize(
    ("key", "signature", "code"),
    [
        pytest.param("service", "", "SUCCESS", id="the service's key"),
        pytest.param("service", "abc", "SUCCESS", id="a signature counts only where it is asked for"),
        pytest.param("old", "", "INVALID_SIGNATURE", id="the old key"),
        pytest.param("stranger", "", "INVALID_SIGNATURE", id="a stranger's key"),
        pytest.param("none", "", "INVALID_SIGNATURE", id="not signed"),
        pytest.param("typed", "abc", "INVALID_SIGNATURE", id="typed"),
    ],
)
def test_each_key_signs(sandbox: Sandbox, http: httpx.Client, key: str, signature: str, code: str) -> None:
    """The wallet accepts the service's alone."""
    exchange = sent(sandbox, http, key=key, signature=signature)
    assert exchange.code == code
    assert (exchange.signature == "valid") == (code == "SUCCESS")
    values = [value for name, value in exchange.request_headers if name.lower() == b"signature"]
    assert (values == [b"abc"]) == (key == "typed")
    assert bool(values) == (key != "none")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        pytest.param({"path": "withdraw"}, "Write a path such as /withdraw", id="no slash"),
        pytest.param({"path": "/a?b"}, "Write a path such as /withdraw", id="a query"),
        pytest.param({"path": "/a b"}, "Write a path such as /withdraw", id="a blank"),
        pytest.param({"path": "//127.0.0.1:1/x"}, "Write a path such as /withdraw", id="another host"),
        pytest.param({"path": "@127.0.0.1:1/x"}, "Write a path such as /withdraw", id="another host after a name"),
        pytest.param({"path": "/a/../b"}, "Leave out . and ..", id="upwards"),
        pytest.param({"path": "/.."}, "Leave out . and ..", id="upwards at the end"),
        pytest.param({"path": "/%2e%2E/b"}, "Leave out . and ..", id="upwards in disguise"),
        pytest.param({"body": "x" * 65_537}, "at most 64 KiB; this is 65,537 bytes", id="a long body"),
        pytest.param({"key": "else"}, "Choose what signs the call.", id="no such key"),
        pytest.param({"key": "typed"}, "Write the signature, or choose a key above.", id="no signature"),
        pytest.param({"key": "typed", "signature": "a b"}, "A signature has", id="a blank in it"),
        pytest.param({"key": "typed", "signature": "a\r\nX: y"}, "A signature has", id="a line end in it"),
        pytest.param({"headers": "X"}, "Write each header as Name: value", id="not a header"),
        pytest.param({"headers": "X: é"}, "Write each header as Name: value", id="not ASCII"),
        pytest.param({"headers": "host: example.com"}, "The sandbox writes host itself", id="another Host"),
        pytest.param({"headers": "Content-Length: 1"}, "The sandbox writes Content-Length itself", id="a length"),
        pytest.param({"headers": "Signature: abc"}, "leave the signature’s header out", id="a signature as a header"),
        pytest.param({"headers": "X: 1\n" * 21}, "at most 20 headers", id="many headers"),
    ],
)
def test_mistakes_are_said_and_nothing_is_sent(
    sandbox: Sandbox, http: httpx.Client, fields: dict[str, str], sentence: str
) -> None:
    """What was typed stays."""
    before = sandbox.live.count
    response = submitted(http, **fields)
    assert response.status_code == 422
    assert sentence in response.text.replace("&#39;", "’")
    assert sandbox.live.count == before
    assert 'value="/player-balance"' in response.text or "path" in fields


def test_a_form_that_is_too_long_is_refused(http: httpx.Client) -> None:
    """It is not read to its end."""
    assert submitted(http, body="x" * 300_000).status_code == 413


def test_the_body_goes_as_it_was_typed(sandbox: Sandbox, http: httpx.Client) -> None:
    """With its blanks, and the line ends of a text area as LF; 64 KiB are not too long."""
    for typed, body in (("\n {\r\n} \n", b"\n {\n} \n"), ("", b""), ("é" * 32_768, "é".encode() * 32_768)):
        assert sent(sandbox, http, path="/withdraw", body=typed).request_body == body


def test_more_headers_are_sent(sandbox: Sandbox, http: httpx.Client) -> None:
    """A content type replaces ours; when it is edited again, the form has them."""
    exchange = sent(sandbox, http, headers="X-Trace:  7 \r\n\r\ncontent-type: text/plain")
    assert (b"X-Trace", b"7") in exchange.request_headers
    types = [value for name, value in exchange.request_headers if name.lower() == b"content-type"]
    assert types == [b"text/plain"]
    assert "X-Trace: 7" in page(http, f"/live/compose?from={exchange.number}").text


def test_what_cannot_be_edited(sandbox: Sandbox, http: httpx.Client) -> None:
    """A body that is no text, or a long one, is left out with a reason; a call of the operator is no webhook."""
    binary = recorded(sandbox, request_body=b"\xff").number
    assert "is not UTF-8" in page(http, f"/live/compose?from={binary}").text
    for size, is_left_out in ((16_384, False), (16_385, True)):
        number = recorded(sandbox, request_body=b"x" * size).number
        assert ("too long to edit here" in page(http, f"/live/compose?from={number}").text) == is_left_out
    api = recorded(sandbox, direction="api").number
    for number_or_text in (api, 10**9, "x", "٣"):
        page(http, f"/live/compose?from={number_or_text}", status=404)


def test_a_wallet_that_is_not_there(nowhere: httpx.Client) -> None:
    """A sentence on the form, which keeps what was typed."""
    response = submitted(nowhere)
    assert response.status_code == 502
    assert "(connection refused). Is the wallet running?" in response.text
    assert "{&#34;player_id&#34;:&#34;p1&#34;}" in response.text


def test_without_a_wallet_nothing_is_sent(public_key: RSAPublicKey) -> None:
    """The page says so."""
    with (
        Sandbox(operator_public_key=public_key, control_room=ControlRoom) as sandbox,
        httpx.Client(base_url=sandbox.base_url, trust_env=False, verify=False, timeout=20) as http,
    ):
        assert "No wallet is configured, so nothing can be sent." in page(http, "/live/compose").text
        response = submitted(http)
    assert response.status_code == 422
    assert "The sandbox knows no wallet." in response.text


def test_another_site_sends_nothing(sandbox: Sandbox, http: httpx.Client) -> None:
    """As everywhere: no form without its token, and none of another site."""
    before = sandbox.live.count
    assert http.post("/live/compose", data=ASK).status_code == 403
    assert sandbox.live.count == before
