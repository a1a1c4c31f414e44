"""What a wallet does wrong is told on the pages, in red, wherever somebody looks."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator.ledger import MemoryLedger
from game_operator.models.webhooks import BalanceCall, DepositCall, Reply, WithdrawCall
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app
from game_operator_testkit.control_room import ControlRoom
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from testkit.tests.control_room.support import PATHS, Html, page, play, post, service_key
from tests.support.servers import asgi_server

pytestmark = pytest.mark.outside

ACCEPTED = 'badge bad"><bdi class="ident">accepted</bdi>'


class Credulous(Wallet):
    """Takes what has the identity of an earlier call and other content for a repeat: SUCCESS."""

    def withdraw(self, call: WithdrawCall) -> Reply:
        return self._accepted(call, super().withdraw(call))

    def deposit(self, call: DepositCall) -> Reply:
        return self._accepted(call, super().deposit(call))

    def _accepted(self, call: WithdrawCall | DepositCall, reply: Reply) -> Reply:
        if reply.code != "DUPLICATE_TRANSACTION":
            return reply
        return replace(self.player_balance(BalanceCall(player_id=call.player_id)), code=None)


class Running:
    """A sandbox with a control room over a wallet of its own."""

    def __init__(self, sandbox: Sandbox, http: httpx.Client, ledger: MemoryLedger) -> None:
        self.sandbox, self.http, self.ledger = sandbox, http, ledger

    def played(self, **fields: str) -> Html:
        """Play a round in the lobby and return the page that tells of it."""
        return page(self.http, play(self.http, **fields).headers["location"])


@contextmanager
def running(public_key: RSAPublicKey, kind: type[Wallet]) -> Iterator[Running]:
    ledger = MemoryLedger()
    ledger.open_account("p1", Decimal(100))
    with Sandbox(
        operator_public_key=public_key, service_private_key=service_key(), control_room=ControlRoom
    ) as sandbox:
        receiver = WebhookReceiver(authenticator=RsaSignature(sandbox.service_public_key_pem))
        with (
            asgi_server(asgi_app(receiver, kind(ledger))) as port,
            httpx.Client(base_url=sandbox.base_url, trust_env=False, verify=False, timeout=20) as http,
        ):
            sandbox.wallet_url = f"http://127.0.0.1:{port}"
            yield Running(sandbox, http, ledger)


@pytest.fixture(scope="module")
def credulous(public_key: RSAPublicKey) -> Iterator[Running]:
    """The wallet that believes changed calls."""
    with running(public_key, Credulous) as credulous:
        yield credulous


@pytest.fixture(scope="module")
def right(public_key: RSAPublicKey) -> Iterator[Running]:
    """Its twin without the mistake."""
    with running(public_key, Wallet) as right:
        yield right


def test_a_fault_that_the_wallet_fails(credulous: Running) -> None:
    """The lobby says so below what became of the bet, and the answer is no green SUCCESS there or in the list."""
    credulous.sandbox.faults.set_nth("other-content", 1)
    html = credulous.played(outcome="loss", won="")
    assert (
        "p1 wagered 1.00 EUR and lost. A correct wallet never does this: withdraw with the fault other-content was"
        in html.text
    )
    assert "other-content was accepted" in html.text
    assert html.source.count(ACCEPTED) == 1
    assert page(credulous.http, "/live").source.count(ACCEPTED) == 1
    assert "A correct wallet never does this" not in credulous.played().text


def test_a_fault_that_the_wallet_stands(right: Running) -> None:
    """No mistake is told of a wallet that refuses what it must."""
    right.sandbox.faults.set_nth("other-content", 1)
    html = right.played(outcome="loss", won="")
    assert "DUPLICATE_TRANSACTION" in html.text
    assert "A correct wallet never does this" not in html.text
    assert ACCEPTED not in html.source + page(right.http, "/live").source


def claimed(running: Running) -> Html:
    """Grant free bets to p1, claim them with a changed call behind the claim, and return the page."""
    http, sandbox = running.http, running.sandbox
    fields = {"count": "3", "wager": "1.50", "duration": "2", "unit": "hours", "reference_id": "mistaken"}
    post(http, "/free-bets/grant", player_id="p1", instance_id=sandbox.instance_id, **fields)
    sandbox.faults.set_nth("other-content", 1)
    free_bet_id = sandbox.world.grants()[-1].free_bet_id
    return page(http, post(http, "/free-bets/claim", free_bet_id=free_bet_id).headers["location"])


def test_a_claim_in_which_the_wallet_fails(credulous: Running, right: Running) -> None:
    """Said of the one and not of the other; both have paid the winnings (spec §6)."""
    failed, stood = claimed(credulous), claimed(right)
    paid = r"the wallet has paid the winnings: [0-9.]+ EUR\. The wallet now has [0-9,.]+ EUR\."
    assert re.search(f"{paid} A correct wallet never does this: deposit with the fault other-", failed.text)
    assert ACCEPTED in failed.source
    assert re.search(paid, stood.text)
    assert "A correct wallet never does this" not in stood.text


@pytest.mark.parametrize(
    ("fault", "note", "signature", "accepted"),
    [
        pytest.param("forged", "must be refused", "forged", True, id="forged"),
        pytest.param("old-key", "", "old key", True, id="the old key"),
        pytest.param("reserialised, reply-lost", "", "valid", True, id="a fault among others"),
        pytest.param("reserialised", "number 3, delivered again", "valid", True, id="sent again by hand"),
        pytest.param("", "number 3, delivered again", "other bytes", True, id="sent again with its signature"),
        pytest.param("duplicate", "", "valid", False, id="a duplicate, which is to be accepted"),
        pytest.param("", "must be refused", "valid", False, id="a note, which decides nothing"),
    ],
)
def test_what_must_be_refused_and_was_not(
    right: Running, fault: str, note: str, signature: str, accepted: bool
) -> None:
    """Red in the list and on the call's page; a refusal of the same is none of this (spec §5)."""
    call = Exchange(
        at_millis=0,
        direction="webhook",
        method="POST",
        path="/withdraw",
        request_headers=(),
        request_body=b"{}",
        signature=signature,
        status=200,
        response_body=b'{"type":"SUCCESS","balance":1.00,"timestamp":1}',
        fault=fault,
        note=note,
    )
    number = right.sandbox.live.record(call).number
    assert (ACCEPTED in _summary(right, number)) == accepted
    refusal = b'{"type":"ERROR","code":"INVALID_SIGNATURE","timestamp":1}'
    refused = right.sandbox.live.record(replace(call, response_body=refusal)).number
    assert ACCEPTED not in _summary(right, refused)


def _summary(of: Running, number: int) -> str:
    """Return what the page of a call says of it, without its other deliveries."""
    return page(of.http, f"/live/{number}").source.partition('<dl class="summary">')[2].partition("</dl>")[0]


def test_a_balance_that_disagrees_is_marked_on_every_page(public_key: RSAPublicKey) -> None:
    """At Wallet in the navigation, in words too, until the balance is accepted."""
    with running(public_key, Wallet) as each:
        each.played()
        assert "a balance disagrees" not in page(each.http, "/").text
        each.ledger.adjust("p1", Decimal(5), reference="by hand")
        each.played()
        for path in PATHS:
            assert "Wallet!(a balance disagrees)" in page(each.http, path).text
        post(each.http, "/wallet/accept", player_id="p1")
        assert all("a balance disagrees" not in page(each.http, path).text for path in PATHS)
