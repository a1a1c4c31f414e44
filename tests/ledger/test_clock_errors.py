"""Clocks that were wrong: accounts left in the future, and days that would be closed or dropped too early."""

from datetime import timedelta

import pytest

from game_operator.errors import LedgerError
from game_operator.ledger import SqlLedger, TableAccounts
from tests.support.calls import deposit, withdraw
from tests.support.ledgers import funded
from tests.support.raw_sql import damage, is_sqlite, rows, run
from tests.support.retention import drop

pytestmark = [pytest.mark.outside, pytest.mark.drawn(4, database_url=("postgres",))]

DAY = 86_400_000
QUARTER = timedelta(days=90)
NOW = 1_795_000_000_000


def now_of(url: str) -> int:
    """Return what time it is for a ledger: on SQLite what a test says, on PostgreSQL what the server says."""
    if is_sqlite(url):
        return NOW
    return int(rows(url, "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")[0][0])


def opened(url: str) -> SqlLedger:
    """Return a ledger whose clock is right, in which p1 and p2 have 100.00 each."""
    return funded(url, 100, "p2", clock_millis=lambda: NOW)


def moved(url: str, millis: int) -> None:
    """Move all that was posted until now by *millis*, as if the clock had been wrong by that."""
    damage(
        url,
        [
            f"UPDATE {{p}}{table} SET at_millis = at_millis + {millis}"
            for table in ("postings", "calls", "accounts", "clocks")
        ],
    )


BEHIND = [pytest.param(31 * DAY, True, id="over 30 days"), pytest.param(29 * DAY, False, id="under 30 days")]


@pytest.mark.parametrize(("millis", "refused"), BEHIND)
def test_maintain_refuses_a_clock_that_is_ahead(database_url: str, millis: int, refused: bool) -> None:
    """Or a ledger that nobody called for so long: days that are not over would be closed, and young ones dropped."""
    with opened(database_url) as ledger:
        moved(database_url, -millis)
        if refused:
            with pytest.raises(LedgerError, match=r"is 31 days old by the clock here"):
                ledger.maintain(drop_after=QUARTER)
            assert rows(database_url, "SELECT COUNT(*) FROM {p}closes") == [(0,)]
        else:
            assert ledger.maintain(drop_after=QUARTER).dropped == ()
        assert ledger.verify().sound


def test_an_account_comes_back_from_the_future(database_url: str) -> None:
    """Its next movements have the time it is; the books are sound before, between and after, and are pruned."""
    with opened(database_url) as ledger:
        ledger.apply(withdraw("b1"))
        moved(database_url, 365 * DAY)
        now = now_of(database_url)
        assert ledger.apply(withdraw("b2")).at_millis > now + 364 * DAY
        done = ledger.correct_time("p1")
        assert (done.account, done.from_millis > now + 364 * DAY) == ("p1", True)
        assert now <= done.to_millis < now + DAY
        assert ledger.verify().findings == ()
        outcome = ledger.apply(deposit("b2"))
        assert now <= outcome.at_millis < now + DAY
        ledger.apply(withdraw("b3"))
        assert ledger.verify().findings == ()
        assert drop(ledger, now + DAY) == 0
        for bet in ("b1", "b3"):
            ledger.apply(deposit(bet))
        assert drop(ledger, now + 500 * DAY) == 8
        assert ledger.verify().findings == ()
        assert ledger.balance("p1") == 10_000 - 3 * 500 + 3 * 1_250


@pytest.mark.parametrize("at", ["corrected", "later"])
def test_a_correction_excuses_nothing_else(database_url: str, at: str) -> None:
    """A time that goes back among the postings before it, or among those after it, is a finding as ever."""
    with opened(database_url) as ledger:
        for bet in ("b1", "b2"):
            ledger.apply(withdraw(bet))
        moved(database_url, 365 * DAY)
        ledger.correct_time("p1")
        for bet in ("b3", "b4"):
            ledger.apply(withdraw(bet))
        wrong = {"corrected": "withdraw:bet:b1", "later": "withdraw:bet:b3"}[at]
        damage(database_url, [f"UPDATE {{p}}postings SET at_millis = at_millis + {DAY // 2} WHERE tx_id = '{wrong}'"])
        kinds = [each.kind for each in ledger.verify().findings]
        assert kinds == (["time_goes_back"] if at == "corrected" else ["account_too_early", "time_goes_back"])


def test_in_the_operators_own_table(database_url: str) -> None:
    """Where the ledger keeps the time beside their balance."""
    run(database_url, "CREATE TABLE players (id varchar(40) PRIMARY KEY, balance bigint)")
    run(database_url, "INSERT INTO players VALUES ('p1', 10000)")
    accounts = TableAccounts(table="players", key="id", balance="balance")
    with SqlLedger(database_url, clock_millis=lambda: NOW, accounts=accounts) as ledger:
        ledger.apply(withdraw("b1"))
        moved(database_url, 365 * DAY)
        ledger.correct_time("p1")
        assert ledger.apply(withdraw("b2")).at_millis < now_of(database_url) + DAY
        assert ledger.verify().findings == ()
