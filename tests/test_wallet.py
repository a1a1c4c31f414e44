"""The ready wallet: the four webhooks of spec §4.1 answered from a ledger, also through the receiver."""

import asyncio
import json
from collections.abc import Awaitable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from game_operator.ledger import AsyncSqlLedger, MemoryLedger, Outcome, SqlLedger, Terms
from game_operator.models.webhooks import Reply, WebhookCall
from game_operator.money import Cents
from game_operator.profile import Profile
from game_operator.wallet import AsyncJoinedWallet, AsyncWallet, JoinedWallet, Wallet
from game_operator.webhooks import AcceptUnsigned, WebhookReceiver
from tests.support.calls import ask_balance, claim, deposit, rollback, withdraw


class AsyncMemoryLedger:
    """A ledger in memory that is awaited."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self.ledger = ledger

    async def apply(self, call: WebhookCall, *, terms: Terms) -> Outcome:
        return self.ledger.apply(call, terms=terms)

    async def keep_anomaly(self, operation: str, kind: str, body: bytes, *, source: str = "") -> None:
        self.ledger.keep_anomaly(operation, kind, body, source=source)


class Both:
    """A wallet and an async one, each over a ledger of its own, asked the same."""

    def __init__(self, **settings: Any) -> None:  # Any: the arguments of two constructors.
        self.ledgers = MemoryLedger({"p1": 1_000}), MemoryLedger({"p1": 1_000})
        self.wallet = Wallet(self.ledgers[0], **settings)
        self.awaited = AsyncWallet(AsyncMemoryLedger(self.ledgers[1]), **settings)

    async def ask(self, method: str, call: Any) -> Reply:  # Any: the call that the method takes.
        """Return the reply, which must be the same from both."""
        told: Reply = getattr(self.wallet, method)(call)
        pending: Awaitable[Reply] = getattr(self.awaited, method)(call)
        again = await pending
        assert (told.code, told.balance_cents) == (again.code, again.balance_cents)
        return told


async def test_the_four_webhooks() -> None:
    """Withdraw deducts, deposit credits, rollback reverses, player-balance tells (spec §1, §3, §4.1)."""
    both = Both()
    for method, call, cents in (
        ("withdraw", withdraw("b1"), 500),
        ("withdraw", withdraw("b2"), 0),
        ("deposit", deposit("b1"), 1_250),
        ("rollback", rollback("b2", tx_id=None), 1_750),
        ("deposit", claim(), 2_050),
        ("player_balance", ask_balance(), 2_050),
    ):
        reply = await both.ask(method, call)
        assert (reply.type, reply.balance_cents) == ("SUCCESS", cents)
        assert reply.timestamp is not None


async def test_refusals() -> None:
    """A refusal is a reply with a code, and with the balance where there is one (spec §2.1, §7.1)."""
    both = Both()
    for method, call, code, cents in (
        ("withdraw", withdraw(amount_cents=1_001), "INSUFFICIENT_BALANCE", 1_000),
        ("deposit", deposit("b9"), "BET_NOT_FOUND", 1_000),
        ("rollback", rollback("b8", tx_id=None), "BET_NOT_FOUND", 1_000),
        ("player_balance", ask_balance("p9"), "PLAYER_NOT_FOUND", None),
    ):
        reply = await both.ask(method, call)
        assert (reply.type, reply.code, reply.balance_cents) == ("ERROR", code, cents)


async def test_settings_reach_the_ledger() -> None:
    """Profile, source, may_bet, account_of and after are the wallet's terms."""
    seen: list[str] = []
    both = Both(
        profile=Profile(unknown_rollback="success"),
        source="staging",
        may_bet=lambda call, account, connection: "LIMIT_EXCEEDED" if call.amount_cents > 100 else None,
        account_of=lambda call: call.player_id.removesuffix("-EUR"),
        after=lambda call, outcome, connection: seen.append(call.operation),
    )
    assert (await both.ask("withdraw", withdraw("b1", "p1-EUR", 101))).code == "LIMIT_EXCEEDED"
    assert (await both.ask("withdraw", withdraw("b2", "p1-EUR", 100))).balance_cents == 900
    assert (await both.ask("rollback", rollback("b3", "p1", None))).code is None
    assert (await both.ask("player_balance", ask_balance("p1-EUR"))).balance_cents == 900
    assert seen == ["withdraw", "withdraw", "withdraw", "withdraw", "rollback", "rollback"]
    for ledger in both.ledgers:
        assert [bet.bet_id for bet in ledger.bets(source="staging")] == ["b1", "b2", "b3"]
        assert list(ledger.bets()) == []


def test_defaults() -> None:
    """A wallet assumes the default profile and no source."""
    assert Wallet(MemoryLedger()).terms == AsyncWallet(AsyncMemoryLedger(MemoryLedger())).terms == Terms()


async def test_anomalies_of_the_receiver() -> None:
    """What the receiver refused is kept under the wallet's source; a ledger that keeps none is no trouble."""
    both = Both(source="staging")
    both.wallet.keep_anomaly("deposit", "unreadable", b"{")
    await both.awaited.keep_anomaly("deposit", "unreadable", b"{")
    for ledger in both.ledgers:
        assert [(each.kind, each.source) for each in ledger.anomalies()] == [("unreadable", "staging")]


def test_joined_wallets_keep_anomalies_under_their_source(sqlite_url: str) -> None:
    """As the others do."""

    async def keep() -> None:
        async with AsyncSqlLedger(sqlite_url) as awaited:
            joined = AsyncJoinedWallet(awaited, nullcontext, source="staging")
            await joined.keep_anomaly("deposit", "unreadable", b"[")

    with SqlLedger(sqlite_url) as ledger:
        ledger.add_source("staging")
        JoinedWallet(ledger, nullcontext, source="staging").keep_anomaly("deposit", "unreadable", b"{")
        asyncio.run(keep())
        assert [(each.body, each.source) for each in ledger.anomalies()] == [(b"{", "staging"), (b"[", "staging")]


async def test_a_ledger_that_keeps_no_anomalies() -> None:
    """A Ledger of the operator's own need not keep them."""
    outcome = Outcome(code=None, balance_cents=Cents(7), at_millis=0)

    async def apply(_call: WebhookCall, *, terms: Terms) -> Outcome:
        return outcome

    plain: Any = SimpleNamespace(apply=lambda _call, *, terms: outcome)  # Any: what this test needs of a ledger.
    Wallet(plain).keep_anomaly("deposit", "unreadable", b"{")
    assert Wallet(plain).withdraw(withdraw()).balance_cents == 7
    awaited = AsyncWallet(SimpleNamespace(apply=apply))
    await awaited.keep_anomaly("deposit", "unreadable", b"{")
    assert (await awaited.withdraw(withdraw())).balance_cents == 7


def test_a_wallet_and_a_ledger_of_one_kind() -> None:
    """The wrong kind is refused at once, and not once money has moved."""
    ledger = MemoryLedger()
    wrong: Any = AsyncMemoryLedger(ledger)  # Any: of the wrong type.
    with pytest.raises(TypeError, match="AsyncMemoryLedger is awaited: give it to AsyncWallet"):
        Wallet(wrong)
    wrong = ledger
    with pytest.raises(TypeError, match="MemoryLedger is not awaited: give it to Wallet"):
        AsyncWallet(wrong)
    wrong = None
    with pytest.raises(TypeError, match="ledger must be a ledger, such as a SqlLedger, not None"):
        Wallet(wrong)
    with pytest.raises(TypeError, match="such as an AsyncSqlLedger, not None"):
        AsyncWallet(wrong)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_the_operators_own_code_raises_is_a_system_error() -> None:
    """The reply is SYSTEM_ERROR without a balance, nothing is kept, and the repeat is processed (B07; spec §7.1)."""
    may_fail = [True]

    def after(call: Any, outcome: Outcome, connection: Any) -> None:
        if may_fail[0]:
            raise RuntimeError("not now")

    ledger = MemoryLedger({"p1": 1_000})
    wallet, receiver = Wallet(ledger, after=after), WebhookReceiver(authenticator=AcceptUnsigned())
    body = json.dumps({"player_id": "p1", "action_id": "b1", "amount": 500, "action": "BET"}).encode()
    told = json.loads(receiver.handle("/withdraw", {}, body, wallet).body)
    assert (told["type"], told["code"], "balance" in told) == ("ERROR", "SYSTEM_ERROR", False)
    assert ledger.balance("p1") == 1_000
    may_fail[0] = False
    told = json.loads(receiver.handle("/withdraw", {}, body, wallet).body)
    assert (told["type"], told["balance"]) == ("SUCCESS", 5.0)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_e09_the_withdraws_bytes_on_every_path() -> None:
    """One body, posted to /deposit and /rollback, moves nothing; the honest rollback refunds (docs/decisions/0011)."""
    ledger = MemoryLedger({"p1": 1_000})
    wallet, receiver = Wallet(ledger), WebhookReceiver(authenticator=AcceptUnsigned())
    placed = b'{"player_id":"p1","action_id":"b1","amount":500,"action":"BET","tx_id":"t"}'
    honest = b'{"player_id":"p1","action_id":"b1","amount":500,"action":"BET","tx_id":"t","round_id":"r"}'

    def post(path: str, body: bytes) -> tuple[str, str | None]:
        told = json.loads(receiver.handle(path, {}, body, wallet).body)
        return told["type"], told.get("code")

    assert post("/withdraw", placed) == ("SUCCESS", None)
    assert post("/deposit", placed) == ("ERROR", "INVALID_REQUEST")
    assert post("/rollback", placed) == ("ERROR", "INVALID_REQUEST")
    assert ledger.balance("p1") == 500
    assert post("/withdraw", honest) == ("SUCCESS", None)
    assert post("/rollback", honest) == ("SUCCESS", None)
    assert post("/withdraw", honest) == ("ERROR", "BET_ROLLED_BACK")
    assert ledger.balance("p1") == 1_000
    assert {each.kind for each in ledger.anomalies()} == {"unreadable", "withdraw_bytes_on_rollback"}
