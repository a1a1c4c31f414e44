"""Rounds whose settlement a sandbox keeps back, and sends on request: in process, for sync and async."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from game_operator.errors import ConfigurationError
from game_operator.ledger import AsyncSqlLedger, MemoryLedger
from game_operator.models import ClosedBet, RolledBackBet, RoundFound
from game_operator.models.webhooks import DepositCall
from game_operator.wallet import AsyncWallet, Wallet
from game_operator_testkit.provider.keys import ThrowAwayKeys
from game_operator_testkit.sandbox.in_process import InProcessSandbox

KEYS = ThrowAwayKeys()
OPENING = 10_000


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger({"p1": OPENING, "p2": OPENING})


@pytest.fixture
def provider(ledger: MemoryLedger) -> Iterator[InProcessSandbox]:
    with InProcessSandbox(keys=KEYS) as sandbox:
        sandbox.wallet = Wallet(ledger)
        yield sandbox


SETTLEMENTS = [
    pytest.param({"won_cents": 700}, 200, id="a win"),
    pytest.param({"won_cents": 0}, -500, id="a loss"),
    pytest.param({"cancel": True}, 0, id="a cancelled bet"),
]


@pytest.mark.parametrize("settlement", ["hold", "lose"])
@pytest.mark.parametrize(("end", "effect"), SETTLEMENTS)
def test_a_settlement_is_kept_back_and_sent_late(
    provider: InProcessSandbox, ledger: MemoryLedger, end: dict[str, Any], effect: int, settlement: Any
) -> None:
    """The service says how it ended, the wallet has it open; what was lost is sent only if that is asked for."""
    played = provider.play_round(player_id="p1", wager_cents=500, settlement=settlement, **end)
    (bet_id,) = played.bet_ids
    assert (played.unsent, played.problems, played.lost) == ((bet_id,), (), False)
    assert [delivery.path for delivery in played.deliveries] == ["/withdraw"]
    assert ledger.balance("p1") == OPENING - 500
    with provider.client() as client:
        assert isinstance(client.fetch_bet(bet_id), RolledBackBet if "cancel" in end else ClosedBet)
    held = settlement == "hold"
    assert provider.service.held == held
    sent = provider.release_held()
    assert len(sent) == held
    sent = sent or provider.release_held(lost=True)
    assert [delivery.code for delivery in sent] == [None]
    assert ledger.balance("p1") == OPENING + effect
    assert provider.release_held(lost=True) == ()
    assert provider.service.held == 0


def test_what_is_late_moves_nothing_once_the_bet_is_settled(provider: InProcessSandbox, ledger: MemoryLedger) -> None:
    """The call that the operator applied by hand from fetch-bet's answer comes again from the service."""
    played = provider.play_round(player_id="p1", wager_cents=500, won_cents=700, settlement="hold")
    (bet_id,) = played.bet_ids
    with provider.client() as client:
        found = client.fetch_bet(bet_id)
    assert isinstance(found, ClosedBet)
    assert ledger.apply(
        DepositCall(player_id="p1", bet_id=bet_id, amount_cents=found.won, round_id=found.round_id)
    ).applied
    assert ledger.balance("p1") == OPENING + 200
    (late,) = provider.release_held()
    assert late.posted
    assert ledger.balance("p1") == OPENING + 200
    # The balance that the operator made right is not called wrong.
    provider.play_round(player_id="p1", wager_cents=500, won_cents=0)
    assert not provider.service.balances.mistakes()


def test_several_bets_in_a_round(provider: InProcessSandbox) -> None:
    """A round that several players share, one of whom nobody has played for."""
    first = provider.play_round(player_id="p1", wager_cents=500, won_cents=0)
    second = provider.play_round(player_id="p2", wager_cents=300, won_cents=600, round_id=first.round_id)
    assert (second.round_id, second.round_no) == (first.round_id, first.round_no)
    with provider.client() as client:
        bet = client.fetch_bet(first.bet_ids[0])
        assert isinstance(bet, ClosedBet)
        provider.world.add_bet(bet.model_copy(update={"reference_id": "b3", "player_id": "stranger"}))
        found = client.fetch_round_bets(instance_id=provider.instance_id, round_id=first.round_id)
    assert isinstance(found, RoundFound)
    assert [each.reference_id for each in found.bets] == [*first.bet_ids, *second.bet_ids, "b3"]
    assert [each.player_id for each in found.bets] == ["p1", "p2", "stranger"]
    with pytest.raises(ConfigurationError, match="round 'round-of-nobody' of this instance is unknown"):
        provider.play_round(player_id="p1", wager_cents=500, round_id="round-of-nobody")


@pytest.mark.anyio
async def test_async(tmp_path: Path) -> None:
    """On the test's own event loop."""
    async with AsyncSqlLedger(f"sqlite:///{tmp_path}/wallet.db") as ledger:
        await ledger.open_account("p1", Decimal("100.00"))
        with InProcessSandbox(keys=KEYS) as sandbox:
            sandbox.wallet = AsyncWallet(ledger)
            await sandbox.play_round_async(player_id="p1", wager_cents=500, won_cents=700, settlement="hold")
            assert await ledger.balance("p1") == OPENING - 500
            assert len(await sandbox.release_held_async()) == 1
            assert await ledger.balance("p1") == OPENING + 200


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
