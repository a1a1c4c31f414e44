"""The fixture ``operator_sandbox``: the service in process, and what it plays."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import Any

import anyio
import pytest

from game_operator import (
    ClosedBet,
    ConfigurationError,
    FreeBetRejectedError,
    OperatorClient,
)
from game_operator.ledger import AsyncSqlLedger, MemoryLedger
from game_operator.wallet import AsyncWallet, Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver
from game_operator_testkit import InProcessSandbox
from game_operator_testkit.provider.keys import ThrowAwayKeys
from game_operator_testkit.sandbox import PlayedRound, Sandbox
from testkit.tests.support.reconciling import called_by
from tests.support.webhooks import Handler

NOW_MILLIS = 1_772_323_200_000


@pytest.fixture
def playing(operator_sandbox: InProcessSandbox, ledger: MemoryLedger) -> InProcessSandbox:
    """A sandbox with the ready wallet, in which p1 owns 100.00."""
    operator_sandbox.wallet = Wallet(ledger)
    return operator_sandbox


# --- the Operator API ------------------------------------------------------------------------------------------------


def _ask_everything(client: OperatorClient, sandbox: InProcessSandbox | Sandbox) -> list[object]:
    return [
        client.fetch_games(),
        *(client.fetch_bet(bet_id) for bet_id in (*sandbox.bet_ids.values(), "a/b%2F?c#d é\n")),
        client.fetch_round_bets(instance_id=sandbox.instance_id, round_id=sandbox.round_id),
        client.fetch_round_bets(instance_id=sandbox.instance_id, round_no=1),
        client.grant_free_bet(**_grant(sandbox)),
    ]


def _grant(sandbox: InProcessSandbox | Sandbox) -> dict[str, Any]:
    return {
        "player_id": "p1",
        "instance_id": sandbox.instance_id,
        "count": 5,
        "wager_amount_cents": 100,
        "expire_duration_millis": 1_000,
        "reference_id": "welcome",
    }


@contextmanager
def _over_http(keys: ThrowAwayKeys) -> Iterator[Sandbox]:
    """A sandbox of the same keys, seed and clock, over real HTTP."""
    key = keys.operator.public_key()
    with Sandbox(
        operator_public_key=key, seed=7, clock=lambda: NOW_MILLIS, service_private_key=keys.service.current
    ) as sandbox:
        yield sandbox


@pytest.fixture
def twin(game_operator_keys: ThrowAwayKeys) -> InProcessSandbox:
    """The same in process."""
    return InProcessSandbox(seed=7, clock=lambda: NOW_MILLIS, keys=game_operator_keys)


@pytest.mark.outside
def test_clients_see_what_they_would_see_over_http(twin: InProcessSandbox, game_operator_keys: ThrowAwayKeys) -> None:
    """The same answers, by the same bytes there and back, signatures included (spec §4.2, §5)."""
    with _over_http(game_operator_keys) as sandbox:
        with OperatorClient(sandbox.base_url, "acme", game_operator_keys.operator, trust_env=False) as client:
            expected = _ask_everything(client, sandbox)
        with twin.client() as client:
            assert _ask_everything(client, twin) == expected
        # Over a connection that is reused, NOT_FOUND is asked again, and the same comes back.
        asked = {(each.path, each.request_body): each for each in sandbox.live.recent()}
        pairs = zip(twin.live.recent(), asked.values(), strict=True)
        for here, there in pairs:
            for part in ("method", "path", "request_body", "signature", "status", "response_headers", "response_body"):
                assert getattr(here, part) == getattr(there, part)
            assert _kept(here.request_headers) == _kept(there.request_headers)


def _kept(headers: tuple[tuple[bytes, bytes], ...]) -> set[tuple[bytes, bytes]]:
    # Where a connection leads to, and how long it is kept, is all that may differ.
    return {(name, value) for name, value in headers if name not in {b"host", b"connection"}}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_async_clients(operator_sandbox: InProcessSandbox, backend: str) -> None:
    """On either event loop, and what is refused is refused there too (spec §7.2)."""

    async def ask() -> None:
        async with operator_sandbox.async_client() as client:
            assert isinstance(await client.fetch_bet(operator_sandbox.bet_ids["CLOSED"]), ClosedBet)
            assert (await client.grant_free_bet(**_grant(operator_sandbox))).success
            with pytest.raises(FreeBetRejectedError, match="DUPLICATE_REFERENCE_ID"):
                await client.grant_free_bet(**_grant(operator_sandbox))

    anyio.run(ask, backend=backend)


# --- rounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.outside
def test_a_round_is_what_it_would_be_over_http(
    twin: InProcessSandbox, ledger: MemoryLedger, game_operator_keys: ThrowAwayKeys
) -> None:
    """The same seed and clock: the same calls byte for byte, signed alike, faults included."""
    twin.wallet = Wallet(ledger)
    over_http = MemoryLedger({"p1": 10_000})
    with _over_http(game_operator_keys) as sandbox, called_by(sandbox, Wallet(over_http)):
        for either in (twin, sandbox):
            either.faults.set_nth("reply-lost", 1)
            either.faults.set_nth("reserialised", 2)
            for _ in range(2):
                assert either.play_round(player_id="p1", wager_cents=500).problems == ()
        pairs = zip(twin.live.recent(), sandbox.live.recent(), strict=True)
        for here, there in pairs:
            for part in ("path", "request_body", "signature", "status", "fault", "note", "bet_id"):
                assert getattr(here, part) == getattr(there, part)
            assert set(there.request_headers) <= set(here.request_headers)
    assert ledger.balance("p1") == over_http.balance("p1")


def test_a_claim_is_paid(playing: InProcessSandbox, ledger: MemoryLedger) -> None:
    """Free bets that were granted are claimed by a deposit, once (spec §2.2); others are not."""
    granted = playing.client().grant_free_bet(**_grant(playing))
    (claim,) = playing.claim_free_bets(granted.free_bet_id).deliveries
    assert b"FREE_BET_CLAIM" in claim.posted
    assert claim.reply is not None
    assert claim.reply.balance_cents == ledger.balance("p1")
    with pytest.raises(ConfigurationError, match="claimed already"):
        playing.claim_free_bets(granted.free_bet_id)
    with pytest.raises(ConfigurationError, match="are unknown"):
        playing.claim_free_bets("others")


@pytest.mark.parametrize(
    ("fault", "codes"),
    [
        pytest.param("request-lost", [None, None], id="request-lost: it is sent again"),
        *(
            pytest.param(fault, [None, None, None], id=f"{fault}: the wallet acts, and hears the call again")
            for fault in ("reply-lost", "timeout", "reset", "slow")
        ),
        pytest.param("duplicate", [None, None, None], id="duplicate"),
        pytest.param("early-deposit", ["BET_NOT_FOUND", None, None], id="early-deposit"),
        pytest.param("other-content", [None, "DUPLICATE_TRANSACTION", None], id="other-content"),
        pytest.param("forged", ["INVALID_SIGNATURE", None, None], id="forged"),
        pytest.param("old-key", ["INVALID_SIGNATURE", None, None], id="old-key"),
        pytest.param("reserialised", [None, "INVALID_SIGNATURE", None], id="reserialised"),
    ],
)
def test_faults_are_seen_and_do_no_harm(
    playing: InProcessSandbox, ledger: MemoryLedger, fault: str, codes: list[str | None]
) -> None:
    """Each is laid over a delivery and never in its place: in the end the money has moved once (spec §3, §6)."""
    playing.faults.set_nth(fault, 1)
    played = playing.play_round(player_id="p1", wager_cents=500, won_cents=1_500)
    assert [delivery.code for delivery in played.deliveries] == codes
    # A call that is merely early has nothing laid over it.
    assert fault == "early-deposit" or fault in {exchange.fault for exchange in playing.live.recent()}
    assert played.problems == ()
    assert ledger.balance("p1") == 11_000
    after = playing.play_round(player_id="p1", wager_cents=500, won_cents=0)
    assert len(after.deliveries) == 2, "it occurred once"


def test_the_live_log_tells_the_truth(playing: InProcessSandbox) -> None:
    """A reply that was lost was really given; a request that was lost was never answered."""
    playing.faults.set_nth("timeout", 1)
    playing.faults.set_nth("request-lost", 2)
    playing.play_round(player_id="p1", wager_cents=500, won_cents=0)
    told = [(seen.path, seen.fault, seen.status, seen.note) for seen in reversed(playing.live.recent())]
    assert told == [
        ("/withdraw", "timeout", 200, "timeout, in process: reply lost"),
        ("/withdraw", "", 200, "delivery 2"),
        ("/deposit", "request-lost", None, "request lost"),
        ("/deposit", "", 200, "delivery 2"),
    ]


async def test_an_async_wallet_on_the_tests_loop(
    operator_sandbox: InProcessSandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its ledger belongs to this loop; rounds and claims are awaited."""
    folder = tmp_path_factory.mktemp("wallet")
    async with AsyncSqlLedger(f"sqlite:///{folder}/wallet.db") as ledger:
        await ledger.open_account("p1", Decimal("100.00"))
        operator_sandbox.wallet = AsyncWallet(ledger)
        operator_sandbox.faults.set_nth("duplicate", 1)
        played = await operator_sandbox.play_round_async(player_id="p1", wager_cents=500, won_cents=1_500)
        assert [delivery.code for delivery in played.deliveries] == [None, None, None]
        async with operator_sandbox.async_client() as client:
            granted = await client.grant_free_bet(**_grant(operator_sandbox))
        claimed = await operator_sandbox.claim_free_bets_async(granted.free_bet_id)
        assert claimed.deliveries[0].reply is not None
        assert claimed.deliveries[0].reply.balance_cents == await ledger.balance("p1")


def test_after_a_rotation_a_handler_is_told_and_a_receiver_is_not(operator_sandbox: InProcessSandbox) -> None:
    """A receiver of the user's own knows the old key alone, until it is told (docs/decisions/0011)."""
    before = RsaSignature(operator_sandbox.service_public_key_pem)
    own, handler = WebhookReceiver(authenticator=before), Handler()
    operator_sandbox.wallet = handler
    play: Callable[[], PlayedRound] = partial(operator_sandbox.play_round, player_id="p1", wager_cents=500, won_cents=0)
    assert play().problems == ()
    after = operator_sandbox.rotate_service_key()
    assert play().problems == ()
    operator_sandbox.wallet = lambda path, headers, body: own.handle(path, headers, body, handler)
    assert {delivery.code for delivery in play().deliveries} == {"INVALID_SIGNATURE"}
    own = WebhookReceiver(authenticator=RsaSignature([operator_sandbox.service_public_key_pem]))
    assert operator_sandbox.service_public_key_pem == after
    assert play().problems == ()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param({"wager_cents": 9}, "out of the limits", id="a cent below the least wager"),
        pytest.param({"wager_cents": 10_001}, "out of the limits", id="a cent above the most"),
        pytest.param({"wager_cents": 500, "instance_id": "0" * 24}, "is unknown", id="no such instance"),
    ],
)
def test_rounds_that_cannot_be_played(playing: InProcessSandbox, arguments: dict[str, Any], told: str) -> None:
    """The limits of the instance hold (spec §2.7), and nothing is sent."""
    with pytest.raises(ConfigurationError, match=told):
        playing.play_round(player_id="p1", **arguments)
    assert playing.live.recent() == []
    for cents in (10, 10_000):
        playing.play_round(player_id="p1", wager_cents=cents, won_cents=cents)


def test_it_opens_no_socket(playing: InProcessSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to listen nor to call."""
    monkeypatch.setattr(socket, "socket", None)
    assert playing.client().fetch_games()
    assert playing.play_round(player_id="p1", wager_cents=500).problems == ()
