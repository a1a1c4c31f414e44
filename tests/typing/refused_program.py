"""
Mistakes that a type checker must see, each on a line of its own; never run.

Every ``type: ignore`` names the error that must be there: mypy calls one without an error unused, and a test runs the
file without them.
"""

# ruff: noqa: B018

from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import Decimal
from pathlib import Path

import game_operator as go
from game_operator.backoffice import Catalogue, Reconciler
from game_operator.ledger import AsyncSqlLedger, SqlLedger
from game_operator.wallet import AsyncJoinedWallet, AsyncWallet, JoinedWallet, Wallet

Transaction = Callable[[], AbstractContextManager[object]]


class NoSigner:
    """It signs text, and texts are not what is signed."""

    def sign(self, message: str) -> str:
        """Return the message."""
        return message


def fields_that_are_not_there(
    opened: go.OpenBet, rolled_back: go.RolledBackBet, missing: go.BetNotFound, no_round: go.RoundNotFound
) -> None:
    """One class for each case, so that a field that is not there cannot be read."""
    opened.won  # type: ignore[attr-defined]
    rolled_back.won_amount  # type: ignore[attr-defined]
    missing.wager  # type: ignore[attr-defined]
    no_round.bets  # type: ignore[attr-defined]


def unions_are_told_apart(client: go.OperatorClient) -> int:
    """What may be NOT_FOUND cannot be read as if it were there."""
    client.fetch_bet("bet-1").wager  # type: ignore[union-attr]
    client.fetch_round_bets(instance_id="i", round_id="r").bets  # type: ignore[union-attr]
    bet: go.ClosedBet = client.fetch_bet("bet-1")  # type: ignore[assignment]
    return bet.won


def values_are_frozen(bet: go.ClosedBet, found: go.RoundFound, policy: go.RetryPolicy) -> None:
    """Nobody changes what the service said."""
    bet.won = 5  # type: ignore[misc]
    found.bets.append(bet)  # type: ignore[attr-defined]
    policy.max_retries = 5  # type: ignore[misc]


def arguments_have_types(client: go.OperatorClient, signer: NoSigner, game: go.GameInfo) -> None:
    """Swapped, forgotten and mistyped arguments are seen."""
    go.OperatorClient("https://api.example.com", "acme", signer)  # type: ignore[arg-type]
    go.OperatorClient("https://api.example.com", "acme", Path("k"), 10.0)  # type: ignore[arg-type, call-arg]
    go.OperatorClient("https://api.example.com", "acme", Path("k"), retries="3")  # type: ignore[arg-type]
    client.fetch_bet(5)  # type: ignore[arg-type]
    client.fetch_round_bets("i", "r")  # type: ignore[call-arg]
    client.fetch_round_bets(instance_id="i", round_no="12")  # type: ignore[arg-type]
    client.fetch_round_bets(round_id="r")  # type: ignore[call-arg]
    client.grant_free_bet(player_id="p", instance_id="i", count=5)  # type: ignore[call-arg]
    client.with_options(retry=0)  # type: ignore[call-arg]
    limit: float = game.instances[0].bet_config.max_wager  # type: ignore[assignment]
    print(limit)  # noqa: T201
    wager: go.Cents = 5  # type: ignore[assignment]
    print(wager)  # noqa: T201


def balances_are_decimals(tokens: go.SessionTokenBuilder) -> None:
    """A float, an int or text is no balance."""
    tokens.build(player_id="p", instance_id="i", balance=12.5)  # type: ignore[arg-type]
    tokens.build(player_id="p", instance_id="i", balance=12)  # type: ignore[arg-type]
    tokens.build(player_id="p", instance_id="i", balance="12.50")  # type: ignore[arg-type]
    tokens.build("p", "i", Decimal(5))  # type: ignore[call-arg]
    tokens.decode("a.b.c", instance_id="i", leeway=30)  # type: ignore[arg-type]
    tokens.build(player_id="p", instance_id="i", claims={"share": 0.5})  # type: ignore[dict-item]


async def sync_and_async_are_two(client: go.OperatorClient, other: go.AsyncOperatorClient) -> None:
    """Neither is mistaken for the other."""
    await client.fetch_games()  # type: ignore[misc]
    await other.fetch_round_bets(round_id="r")  # type: ignore[call-arg]
    other.fetch_bet("bet-1").status  # type: ignore[attr-defined]
    async with client:  # type: ignore[attr-defined]
        pass
    with other:  # type: ignore[attr-defined]
        pass


def each_wallet_has_its_own_kind_of_ledger(ledger: SqlLedger, other: AsyncSqlLedger, opens: Transaction) -> None:
    """One that is awaited needs a wallet that awaits."""
    JoinedWallet(other, opens)  # type: ignore[arg-type]
    JoinedWallet(ledger, opens, confirm="once")  # type: ignore[arg-type]
    AsyncJoinedWallet(other, opens)  # type: ignore[arg-type]


def a_catalogue_asks_in_threads(
    client: go.OperatorClient, other: go.AsyncOperatorClient, awaited: AsyncSqlLedger
) -> None:
    """What is awaited has no place in it."""
    Catalogue(other)  # type: ignore[arg-type]
    Catalogue(client, awaited)  # type: ignore[arg-type]


def a_reconciliation_is_for_threads(
    client: go.OperatorClient, other: go.AsyncOperatorClient, wallet: Wallet, awaited: AsyncWallet
) -> None:
    """What is awaited has no place in it, and lengths of time are no numbers."""
    Reconciler(other, wallet)  # type: ignore[arg-type]
    Reconciler(client, awaited)  # type: ignore[arg-type]
    Reconciler(client, wallet, min_age=7_200)  # type: ignore[arg-type]
    Reconciler(client, wallet).run(repair=True, max_total_cents="1.00")  # type: ignore[arg-type]


def misspelt_names_are_seen() -> None:
    """The lazy names of the package hide no mistake."""
    go.OperatorKlient  # type: ignore[attr-defined]
    from game_operator import OperatorKlient  # type: ignore[attr-defined]  # noqa: F401
