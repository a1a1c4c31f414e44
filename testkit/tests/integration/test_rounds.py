"""What the webhooks told of a bet leads to its round in the Operator API (spec §2.8, §4.2, §6)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from game_operator import ClosedBet, OperatorClient, RolledBackBet, RoundFound, RoundNotFound
from game_operator.ledger import BetRecord, MemoryLedger
from game_operator.wallet import Wallet
from game_operator.webhooks import AcceptUnsigned, WebhookReceiver
from game_operator_testkit.sandbox import Sandbox

pytestmark = pytest.mark.outside


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """A service with rounds."""
    with Sandbox(seed=7) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def client(sandbox: Sandbox) -> Iterator[OperatorClient]:
    """A client of it."""
    with sandbox.client() as client:
        yield client


def settled(bet: ClosedBet | RolledBackBet) -> BetRecord:
    """Tell a wallet what the service has to tell of *bet*, and return what it has kept."""
    ledger = MemoryLedger({bet.player_id: bet.wager})
    wallet, receiver = Wallet(ledger), WebhookReceiver(authenticator=AcceptUnsigned())
    about: dict[str, Any] = {  # Any: JSON.
        "player_id": bet.player_id,
        "action_id": bet.reference_id,
        "instance_id": bet.instance_id,
        "game": bet.game,
        "amount": bet.wager,
    }
    bodies = {"/withdraw": about | {"action": "BET"}}
    if isinstance(bet, ClosedBet):
        action = {"type": "BET", "round_id": bet.round_id, "wager": bet.wager, "won": bet.won}
        bodies["/deposit"] = about | {"amount": bet.won, "action": action}
    else:
        bodies["/rollback"] = about | {"action": "BET", "round_id": bet.round_id}
    for path, body in bodies.items():
        told = json.loads(receiver.handle(path, {}, json.dumps(body).encode(), wallet).body)
        assert told["type"] == "SUCCESS"
    record = ledger.bet(bet.reference_id)
    assert record is not None
    return record


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("state", ["CLOSED", "LOST", "ROLLED_BACK"])
def test_a_record_leads_to_its_round(sandbox: Sandbox, client: OperatorClient, state: str) -> None:
    """The round_id that a deposit or rollback carries can be used in fetch-round-bets (spec §6)."""
    bet = client.fetch_bet(sandbox.bet_ids[state])
    assert isinstance(bet, ClosedBet | RolledBackBet)
    record = settled(bet)
    assert record.instance_id is not None
    assert record.round_id is not None
    found = client.fetch_round_bets(instance_id=record.instance_id, round_id=record.round_id)
    assert isinstance(found, RoundFound)
    [same] = [each for each in found.bets if each.reference_id == record.bet_id]
    assert same == bet
    assert (same.player_id, same.wager, same.game) == (record.player_id, record.wager_cents, record.game)
    assert same.status == record.state.value
    assert (same.won if isinstance(same, ClosedBet) else None) == record.won_cents


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_record_of_another_round_does_not(sandbox: Sandbox, client: OperatorClient) -> None:
    """Another round or another instance is not found (spec §4.2, §6)."""
    bet = client.fetch_bet(sandbox.bet_ids["CLOSED"])
    assert isinstance(bet, ClosedBet)
    record = settled(bet.model_copy(update={"round_id": "no-such-round"}))
    assert record.instance_id is not None
    assert record.round_id is not None
    assert isinstance(client.fetch_round_bets(instance_id=record.instance_id, round_id=record.round_id), RoundNotFound)
    assert isinstance(client.fetch_round_bets(instance_id="elsewhere", round_id=bet.round_id), RoundNotFound)
