"""Where players come from, and who tells what they have."""

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator import DepositCall, WithdrawCall
from game_operator.errors import AccountExistsError, ConfigurationError
from game_operator.ledger import MemoryLedger, SqlLedger, Terms
from game_operator.wallet import Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, asgi_app
from game_operator_testkit.sandbox.storm.players import LedgerBooks, PlayersBooks, read_players
from tests.support.raw_sql import run as run_sql
from tests.support.servers import asgi_server


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A ledger of each kind, empty."""
    address = (
        f"sqlite:///{tmp_path / 'wallet.db'}"
        if request.param == "sqlite"
        else str(request.getfixturevalue("postgres_url"))
    )
    SqlLedger(address).close()
    return address


def test_fresh_players_and_their_bets(url: str) -> None:
    """Opened with what was asked for; at the end their balances and bets, and nobody else's."""
    books = LedgerBooks(url)
    assert books.open({"p1": 1_000, "p2": 5}) == {"p1": 1_000, "p2": 5}
    with closing(SqlLedger(url)) as ledger:
        ledger.open_account("other", Decimal(10))
        for player in ("p1", "other"):
            ledger.apply(WithdrawCall(player_id=player, bet_id=f"b-{player}", amount_cents=300))
    found = books.close(["p1", "p2"])
    assert found.balances == {"p1": 700, "p2": 5}
    assert found.bets is not None
    assert set(found.bets) == {"b-p1"}
    assert found.findings == ()


def test_bets_of_one_source(url: str) -> None:
    """Those that the wallet keeps under its name for service and environment."""
    LedgerBooks(url).open({"p1": 1_000})
    with closing(SqlLedger(url)) as ledger:
        for source in ("", "live"):
            call = WithdrawCall(player_id="p1", bet_id=f"b{source}", amount_cents=1)
            ledger.add_source(source)
            ledger.apply(call, terms=Terms(source=source))
    for source in ("", "live"):
        bets = LedgerBooks(url, source=source).close(["p1"]).bets
        assert bets is not None
        assert set(bets) == {f"b{source}"}


def test_a_player_who_is_there_already(url: str) -> None:
    """A storm's players are fresh: their opening balance would be another."""
    books = LedgerBooks(url)
    books.open({"p1": 1_000})
    with pytest.raises(AccountExistsError, match="p1"):
        books.open({"p1": 1_000})


def test_books_that_do_not_add_up(url: str) -> None:
    """What ``verify`` finds is told, whoever's balance it is."""
    books = LedgerBooks(url)
    books.open({"p1": 1_000})
    run_sql(url, "UPDATE game_operator_accounts SET balance_cents = balance_cents + 1")
    found = books.close(["p1"])
    assert found.balances == {"p1": 1_001}
    assert found.findings


@pytest.fixture
def wallet(private_key: RSAPrivateKey) -> Iterator[tuple[str, Wallet]]:
    """A wallet of anybody's, over HTTP."""
    handler = Wallet(MemoryLedger({"ann": 1_000, "bob": 0}))
    receiver = WebhookReceiver(authenticator=RsaSignature(private_key.public_key()))
    with asgi_server(asgi_app(receiver, handler)) as port:
        yield f"http://127.0.0.1:{port}", handler


def test_players_who_hold_money(wallet: tuple[str, Wallet], private_key: RSAPrivateKey) -> None:
    """Their balances are what the wallet answers to player-balance (spec §6); 0 is one."""
    url, handler = wallet
    books = PlayersBooks(url, private_key)
    assert books.open({"ann": 7, "bob": 7}) == {"ann": 1_000, "bob": 0}
    handler.withdraw(WithdrawCall(player_id="ann", bet_id="b1", amount_cents=300))
    handler.deposit(DepositCall(player_id="ann", bet_id="b1", amount_cents=50))
    found = books.close(["ann", "bob", "nobody"])
    assert found.balances == {"ann": 750, "bob": 0, "nobody": None}
    assert found.bets is None


def test_a_player_whom_the_wallet_does_not_know(wallet: tuple[str, Wallet], private_key: RSAPrivateKey) -> None:
    """Nothing is played then."""
    with pytest.raises(ConfigurationError, match=r"of 1 player: for .xaver. it answers PLAYER_NOT_FOUND"):
        PlayersBooks(wallet[0], private_key).open({"ann": 0, "xaver": 0})


def test_a_file_of_players(tmp_path: Path) -> None:
    """An id on each line, as it stands; empty lines, comments and a byte order mark do not count."""
    path = tmp_path / "players.txt"
    path.write_text("\ufeff# staging\nann\n\n  bob  \r\nzoë#1\nline\u2028break\n   \n", encoding="utf-8")
    assert read_players(path) == ["ann", "  bob  ", "zoë#1", "line\u2028break"]
