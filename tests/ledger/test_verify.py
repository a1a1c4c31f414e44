"""verify(): a healthy book has no finding, and each kind of damage is found (spec §3)."""

import shutil
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from game_operator.errors import LedgerUnavailableError
from game_operator.ledger import AsyncSqlLedger, BooksReport, SqlLedger, TableAccounts
from game_operator.ledger.books import verify, whole_books
from game_operator.ledger.books.verify import Reader
from game_operator.ledger.books.whole_books import verified as read_books
from game_operator.ledger.steps import Steps, as_steps
from game_operator.ledger.steps import run as run_steps
from game_operator.models.webhooks import WebhookCall
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import DEFAULT_PREFIX, damage, damaged, path_in, row, run
from tests.support.repairs import findings, lost, pay, repair, won
from tests.support.retention import drop, keep_one

pytestmark = [pytest.mark.outside, pytest.mark.drawn(6, database_url=("postgres",))]

#: One bet in every state, two claims, and money from outside.
HISTORY: tuple[WebhookCall, ...] = (
    withdraw("open"),
    withdraw("closed"),
    deposit("closed"),
    withdraw("lost"),
    deposit("lost", amount_cents=0),
    withdraw("rolled"),
    rollback("rolled", tx_id="withdraw:bet:rolled"),
    rollback("tomb", tx_id="withdraw:bet:tomb"),
    withdraw("declined", amount_cents=10**9),
    withdraw("nobodys", player_id="nobody"),
    rollback("nobodys-tomb", player_id="nobody", tx_id="withdraw:bet:nobodys-tomb"),
    withdraw("spent", action="RAIN"),
    claim("claim-1"),
    claim("claim-2", bet_id="open", action="JACKPOT"),
    deposit("early"),
    withdraw("closed"),
    withdraw("other", player_id="p2"),
)


def fill(url: str) -> None:
    """Make a ledger with that history."""
    with SqlLedger(url) as ledger:
        ledger.open_account("p1", Decimal(100))
        ledger.open_account("p2", Decimal(100))
        for call in HISTORY:
            time.sleep(0.002)  # Each in a later millisecond: an account that moves often would run ahead of others.
            ledger.apply(call)
        ledger.adjust("p1", Decimal("-20.00"), reference="cashout-1")


def filled(folder: Path, postgres: PostgresServer) -> dict[str, str]:
    """Return the URL of such a ledger in each kind of database."""
    urls = {"sqlite": f"sqlite:///{folder / 'wallet.db'}", "postgres": postgres.create_database()}
    for url in urls.values():
        fill(url)
    return urls


def settle(ledger: SqlLedger) -> None:
    """Settle what is OPEN: else its day is not dropped."""
    for bet_id, player_id in (("open", "p1"), ("other", "p2")):
        assert ledger.apply(deposit(bet_id, player_id)).applied


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> dict[str, str]:
    """The URL of a healthy book in each kind of database, to be copied."""
    begun = f"sqlite:///{tmp_path_factory.mktemp('begun') / 'wallet.db'}"
    with SqlLedger(begun) as ledger:
        assert ledger.maintain().finished
    fill(begun)
    return filled(tmp_path_factory.mktemp("healthy"), postgres) | {"sqlite, since a checkpoint": begun}


@pytest.fixture(params=["sqlite", "postgres"])
def book(
    request: pytest.FixtureRequest, templates: dict[str, str], tmp_path: Path, postgres: PostgresServer
) -> Iterator[str]:
    """A copy of the healthy book."""
    if request.param == "sqlite":
        yield f"sqlite:///{shutil.copy(path_in(templates['sqlite']), tmp_path / 'copy.db')}"
        return
    with postgres.lent_database(template=templates["postgres"]) as url:
        yield url


def verified(url: str) -> BooksReport:
    """Return what verify() says."""
    with SqlLedger(url) as ledger:
        return ledger.verify()


def kinds(report: BooksReport) -> set[str]:
    """Return the kinds of its findings."""
    return {finding.kind for finding in report.findings}


def damaged_report(url: str, statements: tuple[str, ...], *, full: bool) -> BooksReport:
    """Return what verify() says of the rows as they are after *statements*, which are undone."""
    with damaged(url, statements) as perform:
        report = run_steps(read_books(lambda script: lambda: run_steps(script(), perform), DEFAULT_PREFIX, full=full))
    assert all(finding.detail.endswith(".") for finding in report.findings)
    return report


def test_a_healthy_book(book: str) -> None:
    """Nothing is found in a book with a bet in every state, and its totals sum to zero."""
    report = verified(book)
    assert (report.findings, report.notes, report.sound) == ((), (), True)
    assert report.bets == {"OPEN": 2, "SPENT": 1, "CLOSED": 2, "ROLLED_BACK": 1, "TOMBSTONE": 2, "DECLINED": 2}
    assert (report.accounts, report.calls, report.postings) == (2, 20, 13)
    p1 = 10_000 - 4 * 500 + 1250 - 2_000 + 2 * 300
    assert (report.balances_cents, report.house_cents) == (p1 + 9_500, -p1 - 9_500)
    assert report.dropped_before_millis is None


MONEY = "UPDATE {p}accounts SET balance_cents = balance_cents + (%d) WHERE account = '%s'"
BET = "UPDATE {p}bets SET %s WHERE bet_id = '%s'"
CALLED = "UPDATE {p}calls SET %s WHERE tx_id = '%s'"
POSTING_OF = "WHERE operation = '{}' AND tx_id = '{}'"
CLOSING = POSTING_OF.format("deposit", "deposit:bet:closed")
BACK = POSTING_OF.format("rollback", "withdraw:bet:rolled")
POSTED = f"UPDATE {{p}}postings SET %s {CLOSING}"
CALL = (
    "INSERT INTO {p}calls VALUES "
    "('', '%s', '%s', 'p1', 'p1', '%s', 'BET', %d, NULL, 0, 9999999999999, NULL, NULL, NULL, NULL)"
)
LATE = 9_999_999_999_999
POSTING = (
    "INSERT INTO {p}postings (to_account, amount_cents, source, operation, tx_id, at_millis) "
    f"VALUES ('p1', %d, '', '%s', '%s', {LATE})"
)
LATER = f"UPDATE {{p}}accounts SET at_millis = {LATE}"
AGAIN = (
    "INSERT INTO {p}postings (to_account, amount_cents, source, operation, tx_id, at_millis) "
    f"SELECT to_account, amount_cents, source, operation, tx_id, {LATE} FROM {{p}}postings {CLOSING}"
)
AT_ONCE = (
    "UPDATE {p}postings SET at_millis = (SELECT wager.at_millis FROM {p}postings AS wager "
    f"WHERE wager.operation = 'withdraw' AND wager.tx_id = 'withdraw:bet:closed') {CLOSING}"
)
REOPENED = (
    "UPDATE {p}bets SET state = 'OPEN', won_cents = NULL, deposit_tx_id = NULL, settled_at_millis = NULL "
    "WHERE bet_id = 'closed'"
)
#: A deposit of the bet that is rolled back, credited, with a balance to suit.
PAID_TOO = [
    CALL % ("deposit", "d2", "rolled", 1250),
    POSTING % (1250, "deposit", "d2"),
    f"UPDATE {{p}}accounts SET balance_cents = balance_cents + 1250, at_millis = {LATE} WHERE account = 'p1'",
]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        row("balance_differs", "a cent more", MONEY % (1, "p1")),
        row("balance_differs call_without_posting", "a posting deleted", f"DELETE FROM {{p}}postings {CLOSING}"),
        row(
            "call_without_posting",
            "a posting deleted, and the balance to suit",
            f"DELETE FROM {{p}}postings {CLOSING}",
            MONEY % (-1250, "p1"),
        ),
        row("balance_differs wrong_posting", "a posting of another amount", POSTED % "amount_cents = amount_cents + 1"),
        row(
            "balance_differs wrong_posting",
            "a posting the other way",
            POSTED % "from_account = to_account, to_account = NULL",
        ),
        row("balance_differs posted_twice account_too_early", "a posting twice", AGAIN),
        row(
            "posted_twice",
            "a deposit posted in two parts that make its sum",
            POSTED % "amount_cents = 1000",
            POSTING % (250, "deposit", "deposit:bet:closed"),
            LATER,
        ),
        row(
            "balance_differs posted_twice time_goes_back",
            "a posting twice, at the same time",
            AGAIN.replace(f"{LATE}", "at_millis"),
        ),
        row(
            "balance_differs posted_twice time_goes_back",
            "a posting twice, the second to somebody else at the same time",
            AGAIN.replace("SELECT to_account", "SELECT 'p2'").replace(f"{LATE}", "at_millis"),
        ),
        row(
            "balance_differs posting_without_call",
            "a posting without a call",
            POSTING % (5, "deposit", "of-nobody"),
            LATER,
        ),
        row("no_account", "an account deleted", "DELETE FROM {p}accounts WHERE account = 'p2'"),
        row("account_too_early", "an account's time set back", "UPDATE {p}accounts SET at_millis = 0"),
        row(
            "balance_differs carried_unasked checkpoint_differs",
            "something carried forward, and nothing dropped",
            "INSERT INTO {p}carried VALUES ('p1', 5, 0, 0)",
        ),
        row(
            "posting_without_call withdraw_missing",
            "a withdraw deleted",
            "DELETE FROM {p}calls WHERE tx_id = 'withdraw:bet:open'",
        ),
        row("bet_missing", "a tombstone deleted", "DELETE FROM {p}bets WHERE bet_id = 'tomb'"),
        row("second_deposit", "a closed bet opened again without a trace", REOPENED),
        row(
            "resolution_missing",
            "an open bet closed",
            BET % ("state = 'CLOSED', won_cents = 0, settled_at_millis = 1", "open"),
        ),
        row("withdraw_was_refused", "a declined bet opened", BET % ("state = 'OPEN'", "declined")),
        row("withdraw_was_applied", "an open bet said to be declined", BET % ("state = 'DECLINED'", "open")),
        row(
            "withdraw_was_applied call_without_posting",
            "a decline turned into a success",
            CALLED % ("code = NULL", "withdraw:bet:declined"),
        ),
        row(
            "resolution_differs wrong_posting",
            "a success turned into a refusal",
            CALLED % ("code = 'X'", "deposit:bet:closed"),
        ),
        row(
            "resolution_differs wrong_posting",
            "a deposit of another amount",
            CALLED % ("amount_cents = 1", "deposit:bet:closed"),
        ),
        row("withdraw_differs wrong_posting", "a refund that is not the wager", BET % ("wager_cents = 501", "rolled")),
        row("withdraw_differs", "another account", BET % ("account = 'p2'", "open")),
        row("withdraw_differs", "another action", BET % ("action = 'TIP'", "open")),
        row("resolution_differs", "a deposit of another player", f"UPDATE {{p}}calls SET player_id = 'p2' {CLOSING}"),
        row(
            "resolution_differs wrong_account",
            "a deposit to another account",
            f"UPDATE {{p}}calls SET account = 'p2' {CLOSING}",
        ),
        row("time_goes_back", "a posting at the time of the one before", AT_ONCE),
        row("withdraw_differs", "another player", BET % ("player_id = 'p2'", "open")),
        row(
            "tombstone_not_held",
            "a tombstone whose withdraw is no longer held",
            "UPDATE {p}calls SET action = 'BET' WHERE operation = 'withdraw' AND tx_id = 'withdraw:bet:tomb'",
        ),
        row(
            "tombstone_not_held second_withdraw",
            "a tombstone whose withdraw is held for another bet",
            "UPDATE {p}calls SET bet_id = 'rolled' WHERE operation = 'withdraw' AND tx_id = 'withdraw:bet:tomb'",
        ),
        row(
            "resolution_missing",
            "a tombstone without its rollback",
            "DELETE FROM {p}calls WHERE operation = 'rollback' AND tx_id = 'withdraw:bet:tomb'",
        ),
        row("posting_without_call resolution_missing", "a rollback deleted", f"DELETE FROM {{p}}calls {BACK}"),
        row("second_withdraw call_without_posting", "a second withdraw", CALL % ("withdraw", "w2", "open", 500)),
        row("second_deposit call_without_posting", "a second deposit", CALL % ("deposit", "d2", "closed", 1250)),
        row(
            "settled_twice rollback_of_other_state",
            "a rollback of a closed bet",
            CALL % ("rollback", "r2", "closed", 0),
        ),
        row("settled_twice call_without_posting", "a second rollback", CALL % ("rollback", "r2", "rolled", 0)),
        row(
            "settled_twice",
            "a bet both refunded and paid",
            *PAID_TOO,
            BET % ("deposit_tx_id = 'd2', won_cents = 1250", "rolled"),
        ),
        row("second_deposit", "a bet both refunded and paid, and the bet knows nothing of it", *PAID_TOO),
        row(
            "settled_while_open",
            "a reconciliation of a bet that is still open, which a deposit would pay again",
            CALL % ("reconcile", "reconcile:open", "open", 700),
            POSTING % (700, "reconcile", "reconcile:open"),
            MONEY % (700, "p1"),
            LATER,
        ),
        row(
            "withdraw_missing wrong_posting",
            "a withdraw turned into a held identity",
            CALLED % ("action = ''", "withdraw:bet:open"),
        ),
    ],
)
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "sqlite, since a checkpoint"])
@pytest.mark.drawn(18, kind=("postgres", "sqlite, since a checkpoint"))
def test_damage_is_found(templates: dict[str, str], kind: str, statements: tuple[str, ...], expected: set[str]) -> None:
    """Damage is reported by its kind, and nothing else is; what came after a checkpoint is read as carefully."""
    full = "since" not in kind
    if not full and "carried_unasked" in expected:
        expected = set()  # What is carried is compared with all calls, so only where all are read.
    report = damaged_report(templates[kind], statements, full=full)
    assert (report.checkpoint_millis is None) == full
    assert kinds(report) == expected


def test_a_finding_names_the_place(book: str) -> None:
    """Account, source, bet and call, and amounts in currency units, for whoever has to fix it."""
    damage(book, [f"UPDATE {{p}}postings SET amount_cents = 1251 {CLOSING}"])
    balance, posting = sorted(verified(book).findings)
    assert (balance.account, balance.detail) == ("p1", "The balance of 'p1' is 0.01 below its postings.")
    assert (posting.account, posting.source, posting.operation, posting.tx_id) == (
        "p1",
        "",
        "deposit",
        "deposit:bet:closed",
    )
    assert posting.detail == "The deposit 'deposit:bet:closed' should have moved 12.50, and moved 12.51."


def test_two_balances_beyond_63_bits(database_url: str) -> None:
    """A sum that the database cannot hold is summed all the same, and one cent in it is found."""
    most = Decimal(2**63 - 1).scaleb(-2)
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", most)
        ledger.open_account("p2", most)
        report = ledger.verify()
        assert (report.sound, report.balances_cents, report.house_cents) == (True, 2**64 - 2, 2 - 2**64)
        damage(database_url, [MONEY % (-1, "p2")])
        assert kinds(ledger.verify()) == {"balance_differs"}


@pytest.fixture(scope="module")
def repaired(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[dict[str, str]]:
    """The URL of a healthy book with repairs, late calls and payments in each kind of database."""
    urls = filled(tmp_path_factory.mktemp("repaired"), postgres)
    for url in urls.values():
        with SqlLedger(url) as ledger:
            for bet_id in ("won", "refunded", "paid", "taken"):
                ledger.apply(withdraw(bet_id))
                repair(ledger, lost(bet_id) if bet_id == "refunded" else won(700, bet_id))
            ledger.apply(deposit("won", amount_cents=700))
            ledger.apply(deposit("paid", amount_cents=900))
            ledger.apply(deposit("taken", amount_cents=100))
            assert [pay(ledger, found.id)[0].paid_cents for found in findings(ledger)] == [200, -600]
    yield urls
    postgres.drop_database(urls["postgres"])


_REPAIR = "WHERE operation = 'reconcile' AND tx_id = '{}'"
_PAYMENT = "WHERE operation = 'pay' AND tx_id = '1'"


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        row("", "nothing"),
        row(
            "posting_without_call resolution_missing",
            "a repair deleted",
            f"DELETE FROM {{p}}calls {_REPAIR.format('refunded')}",
        ),
        row(
            "posting_without_call call_without_posting resolution_missing",
            "a repair deleted whose deposit came",
            f"DELETE FROM {{p}}calls {_REPAIR.format('won')}",
        ),
        row(
            "call_without_posting",
            "the posting of a repair deleted, and the balance to suit",
            f"DELETE FROM {{p}}postings {_REPAIR.format('won')}",
            MONEY % (-700, "p1"),
        ),
        row(
            "resolution_differs",
            "a repair of a cent more than was won",
            f"UPDATE {{p}}calls SET amount_cents = 701 {_REPAIR.format('paid')}",
            f"UPDATE {{p}}postings SET amount_cents = 701 {_REPAIR.format('paid')}",
            MONEY % (1, "p1"),
        ),
        row("resolution_missing", "a bet said to be repaired", BET % ("settled_by = 'reconcile'", "closed")),
        row("posting_without_call finding_without_payment", "a payment deleted", f"DELETE FROM {{p}}calls {_PAYMENT}"),
        row("payment_differs", "another amount paid", "UPDATE {p}findings SET paid_cents = 201 WHERE id = 1"),
        row(
            "payment_differs",
            "a finding opened again, to be paid twice",
            "UPDATE {p}findings SET resolved_at_millis = NULL WHERE id = 2",
        ),
        row(
            "payment_differs",
            "a payment to somebody else, and the balances to suit",
            f"UPDATE {{p}}calls SET account = 'p2' {_PAYMENT}",
            f"UPDATE {{p}}postings SET to_account = 'p2' {_PAYMENT}",
            LATER,
            MONEY % (-200, "p1"),
            MONEY % (200, "p2"),
        ),
        row(
            "payment_without_finding finding_without_payment",
            "a finding whose number was changed",
            "UPDATE {p}findings SET id = 9 WHERE id = 1",
        ),
        row(
            "wrong_posting balance_differs",
            "a posting of less than was paid",
            f"UPDATE {{p}}postings SET amount_cents = 100 {_PAYMENT}",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.drawn(6, kind=("postgres",))
def test_damage_of_repairs_and_payments_is_found(
    repaired: dict[str, str], kind: str, statements: tuple[str, ...], expected: set[str]
) -> None:
    """Repairs and payments are checked as calls are, against the bet and the finding that they belong to."""
    assert kinds(damaged_report(repaired[kind], statements, full=True)) == expected


async def test_awaited(book: str) -> None:
    """An AsyncSqlLedger says the same, also when nothing was asked of it before."""
    async with AsyncSqlLedger(book) as ledger:
        assert (await ledger.verify()) == verified(book)
        damage(book, [MONEY % (1, "p1")])
        assert kinds(await ledger.verify()) == {"balance_differs"}


def test_balances_in_the_operators_own_table(tmp_path: Path) -> None:
    """Their postings are checked as any others; their balances, which others move too, are not."""
    url = f"sqlite:///{tmp_path / 'casino.db'}"
    run(url, "CREATE TABLE players (id TEXT PRIMARY KEY, balance INTEGER NOT NULL)")
    run(url, "INSERT INTO players VALUES ('p1', 10000)")
    with SqlLedger(url, accounts=TableAccounts(table="players", key="id", balance="balance", unit="cents")) as ledger:
        for call in (withdraw("b1"), deposit("b1"), withdraw("b2"), rollback("b2", tx_id="withdraw:bet:b2")):
            assert ledger.apply(call).applied
        report = ledger.verify()
        assert (report.findings, report.accounts, report.balances_cents, report.house_cents) == ((), 0, 0, -750)
        assert drop(ledger)
        assert ledger.verify().findings == ()
        damage(url, ["UPDATE {p}carried SET cents = cents + 1"])
        assert kinds(ledger.verify(full=True)) == {"carried_differs", "checkpoint_differs"}


@pytest.mark.parametrize("name", ["wallet.db", "odd#name%20of a file.db"])
def test_a_file_that_is_gone(tmp_path: Path, name: str) -> None:
    """It is not taken for an empty book, and none is made in its place."""
    with SqlLedger(f"sqlite:///{tmp_path / name}") as ledger:
        assert ledger.verify().sound
        for each in tmp_path.iterdir():
            each.unlink()
        with pytest.raises(LedgerUnavailableError, match="unable to open"):
            ledger.verify()
        assert list(tmp_path.iterdir()) == []


def read_with(ledger: SqlLedger, between: Callable[[int], object]) -> tuple[BooksReport, int]:
    """Verify all of the books; *between* gets the number of each page before it is read. Return how many there are."""
    numbers = count()

    def work(read: Reader) -> Steps[BooksReport]:
        def interrupted(script: Callable[[], Steps[Any]]) -> Any:
            between(next(numbers))
            return read(script)

        return read_books(interrupted, DEFAULT_PREFIX, full=True)

    with ledger._beside("pages") as reads:
        return run_steps(work(as_steps(reads))), next(numbers)


def test_what_is_committed_between_two_pages_is_no_finding(book: str) -> None:
    """Each page reads a snapshot of its own: what other connections commit meanwhile never looks like damage."""
    with SqlLedger(book) as ledger, SqlLedger(book) as beside:
        before = ledger.verify()

        def play(page: int) -> None:
            beside.apply(withdraw(f"meanwhile-{page}", player_id="p2", amount_cents=1))
            beside.apply(deposit(f"meanwhile-{page}", player_id="p2", amount_cents=2))

        report, pages = read_with(ledger, play)
        after = ledger.verify()
    assert report.sound
    assert after.sound
    assert after.calls == before.calls + 2 * pages


def test_pages_of_any_size_say_the_same(book: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of one finds what a page of all finds."""
    with SqlLedger(book) as ledger:
        ledger.open_account("p3", Decimal(1))
        settle(ledger)
        keep_one(ledger)
        assert drop(ledger)
        ledger.apply(withdraw("later", player_id="p3", amount_cents=1))
        damage(
            book,
            [
                "UPDATE {p}carried SET cents = cents + 1 WHERE account IN ('p1', 'p3')",
                "UPDATE {p}accounts SET balance_cents = balance_cents - 1 WHERE account IN ('p2', 'p3')",
                "UPDATE {p}bets SET wager_cents = 3 WHERE bet_id IN ('later', 'open')",
                "UPDATE {p}postings SET amount_cents = 2 WHERE tx_id = 'withdraw:bet:later'",
            ],
        )
        whole = ledger.verify(full=True)
        for module in (verify, whole_books):
            for name in ("_ACCOUNTS", "_POSTINGS", "_BETS", "_SLICES", "_CARRIED"):
                monkeypatch.setattr(module, name, 1, raising=False)
        assert ledger.verify(full=True) == whole
    expected = {"balance_differs", "carried_differs", "withdraw_differs", "checkpoint_differs", "wrong_posting"}
    assert kinds(whole) == expected | {"folded_differs"}


@pytest.mark.parametrize("page", range(12))
def test_a_drop_between_two_pages_is_no_finding(sqlite_url: str, page: int) -> None:
    """What was folded meanwhile is not compared, which a note says; before and after it, it is."""
    fill(sqlite_url)
    with SqlLedger(sqlite_url) as ledger, SqlLedger(sqlite_url) as beside:
        settle(beside)
        report, pages = read_with(ledger, lambda number: drop(beside) if number == page else None)
    assert report.findings == ()
    assert {note.kind for note in report.notes} == ({"folded_meanwhile"} if 0 < page < pages else set())
