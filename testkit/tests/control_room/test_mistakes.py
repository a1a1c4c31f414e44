"""What a wallet does wrong is told on the pages, in red, wherever somebody looks."""

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.ledger import MemoryLedger
from game_operator.models.webhooks import BalanceCall, DepositCall, Reply, WithdrawCall
from game_operator.wallet import Wallet
from testkit.tests.control_room.running import Room, room_with
from testkit.tests.control_room.support import PATHS, Html, page, play, post
from testkit.tests.sandbox.support import exchange

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


@pytest.fixture(scope="module")
def credulous(private_key: RSAPrivateKey) -> Iterator[Room]:
    """The wallet that believes changed calls."""
    with room_with(private_key, Credulous(MemoryLedger({"p1": 10_000}))) as credulous:
        yield credulous


@pytest.fixture(scope="module")
def right(private_key: RSAPrivateKey) -> Iterator[Room]:
    """Its twin without the mistake."""
    with room_with(private_key, Wallet(MemoryLedger({"p1": 10_000}))) as right:
        yield right


def played(room: Room, **fields: str) -> Html:
    """Play a round in the lobby and return the page that tells of it."""
    return page(room.http, play(room.http, **fields).headers["location"])


def test_a_fault_that_the_wallet_fails(credulous: Room) -> None:
    """The lobby says so below what became of the bet, and the answer is no green SUCCESS there or in the list."""
    credulous.sandbox.faults.set_nth("other-content", 1)
    html = played(credulous, outcome="loss", won="")
    assert (
        "p1 wagered 1.00 EUR and lost. A correct wallet never does this: withdraw with the fault other-content was"
        in html.text
    )
    assert "other-content was accepted" in html.text
    assert html.source.count(ACCEPTED) == 1
    assert page(credulous.http, "/live").source.count(ACCEPTED) == 1
    assert "A correct wallet never does this" not in played(credulous).text


def test_a_fault_that_the_wallet_stands(right: Room) -> None:
    """No mistake is told of a wallet that refuses what it must."""
    right.sandbox.faults.set_nth("other-content", 1)
    html = played(right, outcome="loss", won="")
    assert "DUPLICATE_TRANSACTION" in html.text
    assert "A correct wallet never does this" not in html.text
    assert ACCEPTED not in html.source + page(right.http, "/live").source


def claimed(running: Room) -> Html:
    """Grant free bets to p1, claim them with a changed call behind the claim, and return the page."""
    http, sandbox = running.http, running.sandbox
    fields = {"count": "3", "wager": "1.50", "duration": "2", "unit": "hours", "reference_id": "mistaken"}
    post(http, "/free-bets/grant", player_id="p1", instance_id=sandbox.instance_id, **fields)
    sandbox.faults.set_nth("other-content", 1)
    free_bet_id = sandbox.world.grants()[-1].free_bet_id
    return page(http, post(http, "/free-bets/claim", free_bet_id=free_bet_id).headers["location"])


def test_a_claim_in_which_the_wallet_fails(credulous: Room, right: Room) -> None:
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
def test_what_must_be_refused_and_was_not(right: Room, fault: str, note: str, signature: str, accepted: bool) -> None:
    """Red in the list and on the call's page; a refusal of the same is none of this (spec §5)."""
    call = exchange(signature=signature, fault=fault, note=note)
    number = right.sandbox.live.record(call).number
    assert (ACCEPTED in _summary(right, number)) == accepted
    refusal = b'{"type":"ERROR","code":"INVALID_SIGNATURE","timestamp":1}'
    refused = right.sandbox.live.record(replace(call, response_body=refusal)).number
    assert ACCEPTED not in _summary(right, refused)


def _summary(of: Room, number: int) -> str:
    """Return what the page of a call says of it, without its other deliveries."""
    return page(of.http, f"/live/{number}").source.partition('<dl class="summary">')[2].partition("</dl>")[0]


def test_a_balance_that_disagrees_is_marked_on_every_page(private_key: RSAPrivateKey) -> None:
    """At Wallet in the navigation, in words too, until the balance is accepted."""
    ledger = MemoryLedger({"p1": 10_000})
    with room_with(private_key, Wallet(ledger)) as each:
        played(each)
        assert "a balance disagrees" not in page(each.http, "/").text
        ledger.adjust("p1", Decimal(5), reference="by hand")
        played(each)
        for path in PATHS:
            assert "Wallet!(a balance disagrees)" in page(each.http, path).text
        post(each.http, "/wallet/accept", player_id="p1")
        assert all("a balance disagrees" not in page(each.http, path).text for path in PATHS)
