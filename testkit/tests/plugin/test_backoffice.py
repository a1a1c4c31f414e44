"""`reconciler_for` and `campaign_for`: the sandbox of the test, the wallet of the user, and nothing to wait for."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from game_operator.errors import CampaignRefusedError, ConfigurationError
from game_operator.ledger import AsyncSqlLedger, MemoryLedger, SqlLedger
from game_operator.wallet import AsyncWallet, JoinedWallet, Wallet
from game_operator_testkit import CampaignMaker, InProcessSandbox, ReconcilerMaker


@pytest.fixture
def books(tmp_path: Path) -> Iterator[SqlLedger]:
    """A ledger that can keep a journal; p1 has 100.00 in it."""
    with SqlLedger(f"sqlite:///{tmp_path / 'wallet.db'}") as books:
        books.open_account("p1", Decimal("100.00"))
        yield books


@pytest.fixture
def provider(operator_sandbox: InProcessSandbox, books: SqlLedger) -> InProcessSandbox:
    """The sandbox, playing against that ledger."""
    operator_sandbox.wallet = Wallet(books)
    return operator_sandbox


#: For each way to end a bet: what a round asks for, the verdict of a dry run, and the balance once all has arrived.
ENDS: list[Any] = [
    pytest.param({"won_cents": 1_500}, "settle", 11_000, id="a win"),
    pytest.param({"won_cents": 0}, "settle", 9_500, id="a loss"),
    pytest.param({"cancel": True}, "refund", 10_000, id="cancelled"),
]


@pytest.mark.parametrize(("end", "verdict", "balance_cents"), ENDS)
def test_a_kept_back_settlement_is_repaired_once(
    provider: InProcessSandbox,
    books: SqlLedger,
    reconciler_for: ReconcilerMaker,
    end: dict[str, Any],
    verdict: str,
    balance_cents: int,
) -> None:
    """The bet is seconds old, both looks are made at once, and the late call moves nothing (decision 14)."""
    provider.play_round(player_id="p1", wager_cents=500, settlement="hold", **end)
    reconciler = reconciler_for(Wallet(books))
    assert list(reconciler.run().verdicts) == [verdict]
    assert books.balance("p1") == 9_500
    report = reconciler.run(repair=True, max_bets=1, max_total_cents=1_500, actor="ann", reason="an outage")
    assert (report.repaired.bets, books.balance("p1")) == (1, balance_cents)
    assert [late.code for late in provider.release_held()] == [None]
    assert books.balance("p1") == balance_cents
    again = reconciler.run()
    assert (dict(again.verdicts), again.is_fine) == ({"agrees": (1, 0)}, True)


def test_a_joined_wallets_own_rows_are_written(
    provider: InProcessSandbox, books: SqlLedger, reconciler_for: ReconcilerMaker, tmp_path: Path
) -> None:
    """The repair runs in the user's transaction what the user's wallet runs for a call."""

    @contextmanager
    def transaction() -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(tmp_path / "wallet.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    paid: list[int] = []
    wallet = JoinedWallet(books, transaction, after=lambda call, outcome, _: paid.append(outcome.balance_cents or 0))
    provider.play_round(player_id="p1", wager_cents=500, won_cents=1_500, settlement="lose")
    reconciler_for(wallet).run(repair=True, max_bets=1, max_total_cents=1_500, actor="ann", reason="an outage")
    assert paid == [11_000]
    assert books.balance("p1") == 11_000


def test_options_replace_what_the_fixture_sets(
    provider: InProcessSandbox, books: SqlLedger, reconciler_for: ReconcilerMaker
) -> None:
    """By default all bets are looked at; fewer with a smaller sample, and none that is younger than ``min_age``."""
    provider.play_round(player_id="p1", wager_cents=500, won_cents=1_500, settlement="lose")
    provider.play_round(player_id="p1", wager_cents=500, won_cents=0)
    assert dict(reconciler_for(Wallet(books)).run().verdicts) == {"agrees": (1, 0), "settle": (1, 1_500)}
    assert dict(reconciler_for(Wallet(books), sample=0.0).run().verdicts) == {"settle": (1, 1_500)}
    assert dict(reconciler_for(Wallet(books), min_age=timedelta(hours=1)).run().verdicts) == {}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        pytest.param({"sample": 2.0}, ConfigurationError, "sample is 2.0", id="a share over 1"),
        pytest.param({"min_age": 60}, TypeError, "min_age must be a timedelta", id="a number for a time"),
        pytest.param({"second": 1}, TypeError, "unexpected keyword argument", id="a misspelt option"),
    ],
)
def test_wrong_options_are_errors(
    books: SqlLedger, reconciler_for: ReconcilerMaker, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    """They are those of ``Reconciler``."""
    with pytest.raises(error, match=words):
        reconciler_for(Wallet(books), **options)


@pytest.mark.parametrize(
    "wallet",
    [
        pytest.param(lambda books: Wallet(MemoryLedger()), id="a ledger in memory"),
        pytest.param(lambda books: AsyncWallet(AsyncSqlLedger("sqlite:///never-opened.db")), id="an async wallet"),
        pytest.param(lambda books: books, id="a ledger"),
    ],
)
def test_other_wallets_are_refused(books: SqlLedger, reconciler_for: ReconcilerMaker, wallet: Any) -> None:
    """A journal needs a database, and a reconciliation is for threads."""
    with pytest.raises(TypeError, match="must be a"):
        reconciler_for(wallet(books))


def test_a_campaign_grants_once_over_a_lost_answer(
    provider: InProcessSandbox, books: SqlLedger, campaign_for: CampaignMaker
) -> None:
    """The terms are those of the fixture and the test; one player is one grant (spec §2.2)."""
    books.open_account("p2")
    campaign = campaign_for(books, "summer", count=5)
    campaign.plan(["p1", "p2"], max_exposure_cents=1_000)
    provider.faults.set_nth("api-500", 1)
    report = campaign.run(rate_per_second=1_000.0)
    assert (report.state, report.granted) == ("finished", 2)
    grants = [grant.request for grant in provider.world.grants()]
    assert [(grant.player_id, grant.count, grant.wager_amount_cents) for grant in grants] == [
        ("p1", 5, 100),
        ("p2", 5, 100),
    ]
    assert {grant.instance_id for grant in grants} == {provider.instance_id}


def test_a_campaign_is_capped_and_knows_its_players(
    provider: InProcessSandbox, books: SqlLedger, campaign_for: CampaignMaker
) -> None:
    """Nothing is granted beyond the cap, or to a player without an account."""
    with pytest.raises(CampaignRefusedError, match="exposure"):
        campaign_for(books, "dear").plan(["p1"], max_exposure_cents=99)
    with pytest.raises(CampaignRefusedError, match="nobody"):
        campaign_for(books, "strange").plan(["nobody"])
    assert provider.world.grants() == ()
