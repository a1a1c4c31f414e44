"""prune(): old details go, and whatever tells a call from a new one stays for ever (spec §3; scenarios E07, B11)."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from game_operator.ledger import AsyncSqlLedger, Outcome, PruneReport, SqlLedger, Terms, base
from game_operator.ledger.books import prune as module
from game_operator.models.webhooks import WebhookCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import encode_call, read_call
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.raw_sql import damage, is_sqlite, rows, run
from tests.support.times import RunningClock

pytestmark = [pytest.mark.drawn(9, database_url=("postgres",))]

DAY = 86_400_000
QUARTER = timedelta(days=90)
VERBATIM = Terms(rules=Profile(duplicate_reply="verbatim"))


def with_body(call: WebhookCall) -> WebhookCall:
    """Return *call* as it is read from the body it would come in."""
    return read_call(call.operation, encode_call(call), Profile())[0]


PLAYED: tuple[WebhookCall, ...] = (
    withdraw("closed"),
    deposit("closed"),
    withdraw("rolled"),
    rollback("rolled", tx_id="withdraw:bet:rolled"),
    rollback("tomb", tx_id="withdraw:bet:tomb"),
    withdraw("declined", amount_cents=10**9),
    withdraw("open"),
    withdraw("spent", action="RAIN"),
    claim("claim-1"),
    claim("jackpot-1", bet_id="open", action="JACKPOT", amount_cents=90_000),
)
HISTORY = tuple(map(with_body, PLAYED))
BALANCE = 10_000 - 500 + 1250 - 500 - 500 + 300 + 90_000


@pytest.fixture(autouse=True)
def without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for us here."""
    monkeypatch.setattr(base, "PAUSE_SECONDS", 0.0)


def opened(url: str, clock: RunningClock) -> SqlLedger:
    """Return a ledger whose clock is ours on SQLite."""
    return SqlLedger(url, clock_millis=clock)


def later(account: str, millis: int) -> list[str]:
    """Return the statements that move the opening of *account* so many milliseconds on."""
    return [
        f"UPDATE {{p}}postings SET at_millis = at_millis + {millis} WHERE to_account = '{account}'",
        f"UPDATE {{p}}calls SET at_millis = at_millis + {millis} WHERE account = '{account}'",
        f"UPDATE {{p}}accounts SET at_millis = at_millis + {millis} WHERE account = '{account}'",
    ]


def now_of(ledger: SqlLedger, url: str, clock: RunningClock) -> int:
    """Return what time it is for *ledger*."""
    if is_sqlite(url):
        return clock.millis
    return int(rows(url, "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")[0][0])


def played(ledger: SqlLedger, calls: Sequence[WebhookCall] = HISTORY, terms: Terms = VERBATIM) -> list[Outcome]:
    """Open p1 with 100.00 and apply *calls*."""
    ledger.open_account("p1", Decimal(100))
    return [ledger.apply(call, terms=terms) for call in calls]


def kept(url: str) -> tuple[Any, ...]:
    """Return what stays for ever: identity and content of calls, and bets whole."""
    calls = "source, operation, tx_id, player_id, account, bet_id, action, amount_cents, code, at_millis"
    return (
        rows(url, f"SELECT {calls} FROM {{p}}calls ORDER BY source, operation, tx_id"),
        rows(url, "SELECT * FROM {p}bets ORDER BY bet_id"),
        rows(url, "SELECT * FROM {p}accounts ORDER BY account"),
    )


def test_what_goes_and_what_stays(database_url: str, clock: RunningClock) -> None:
    """Bodies and postings go; identities, answers, bets and their digests stay; an open bet keeps all it has."""
    with opened(database_url, clock) as ledger:
        played(ledger)
        before = kept(database_url)
        report = ledger.prune(QUARTER, now_millis=now_of(ledger, database_url, clock) + 91 * DAY)
        assert (report.calls, report.postings, report.anomalies) == (2, 8, 0)
        assert kept(database_url) == before
        assert rows(database_url, "SELECT COUNT(*) FROM {p}calls WHERE body IS NOT NULL") == [(0,)]
        assert rows(
            database_url, "SELECT operation, tx_id, from_account, to_account, amount_cents FROM {p}postings"
        ) == [("withdraw", "withdraw:bet:open", "p1", None, 500)]
        assert rows(database_url, "SELECT account, cents FROM {p}carried") == [("p1", BALANCE + 500)]
        assert ledger.verify().findings == ()
        assert ledger.verify().pruned_before_millis == report.before_millis
        assert ledger.balance("p1") == BALANCE


@pytest.mark.parametrize("rules", [Profile(), Profile(duplicate_reply="verbatim")], ids=["current", "verbatim"])
def test_a_captured_call_moves_nothing_after_a_prune(database_url: str, clock: RunningClock, rules: Profile) -> None:
    """Claims and withdraws, played again when their details are gone, are known again (scenarios E07, B11)."""
    terms = Terms(rules=rules)
    with opened(database_url, clock) as ledger:
        first = played(ledger, terms=terms)
        ledger.prune(QUARTER, now_millis=now_of(ledger, database_url, clock) + 91 * DAY)
        again = [ledger.apply(call, terms=terms) for call in HISTORY]
        assert ledger.balance("p1") == BALANCE
        assert [outcome.applied for outcome in again] == [False] * len(HISTORY)
        rolled_back = {2: "BET_ROLLED_BACK"}
        assert [outcome.code for outcome in again] == [rolled_back.get(n, one.code) for n, one in enumerate(first)]
        is_verbatim = rules.duplicate_reply == "verbatim"
        for number in (0, 1, 3, 6, 7, 8, 9):
            assert again[number].balance_cents == (first[number].balance_cents if is_verbatim else BALANCE)
        assert ledger.verify().findings == ()


def test_known_again_the_day_before_it_may_be_pruned(database_url: str, clock: RunningClock) -> None:
    """Nothing is dropped before 90 days: a call of 89 days ago has its very reply (scenario B11)."""
    with opened(database_url, clock) as ledger:
        first = played(ledger)
        report = ledger.prune(QUARTER, now_millis=now_of(ledger, database_url, clock) + 89 * DAY)
        assert (report.calls, report.postings) == (0, 0)
        again = ledger.apply(HISTORY[0], terms=VERBATIM)
        assert (again.balance_cents, again.at_millis, again.replayed) == (
            first[0].balance_cents,
            first[0].at_millis,
            True,
        )


@pytest.mark.parametrize(
    ("older_than", "error"),
    [
        pytest.param(timedelta(days=90) - timedelta(milliseconds=1), ValueError, id="a millisecond under 90 days"),
        pytest.param(90 * DAY - 1, ValueError, id="as milliseconds"),
        pytest.param(timedelta(0), ValueError, id="nothing"),
        pytest.param(-(90 * DAY), ValueError, id="negative"),
        pytest.param(True, TypeError, id="a bool"),
        pytest.param(90.0 * DAY, TypeError, id="a float"),
        pytest.param("90 days", TypeError, id="a text"),
    ],
)
def test_never_under_90_days(sqlite_url: str, clock: RunningClock, older_than: Any, error: type[Exception]) -> None:
    """It is refused before anything is touched."""
    with opened(sqlite_url, clock) as ledger:
        with pytest.raises(error, match="older_than"):
            ledger.prune(older_than, now_millis=10**15)
        assert ledger.verify().pruned_before_millis is None


@pytest.mark.parametrize("older_than", [QUARTER, 90 * DAY], ids=["a timedelta", "milliseconds"])
def test_the_limit_to_the_millisecond(database_url: str, clock: RunningClock, older_than: timedelta | int) -> None:
    """What is exactly 90 days old stays, and what is a millisecond older goes."""
    with opened(database_url, clock) as ledger:
        ledger.open_account("p1", Decimal(1))
        (at_millis,) = rows(database_url, "SELECT at_millis FROM {p}postings")[0]
        assert ledger.prune(older_than, now_millis=at_millis + 90 * DAY).postings == 0
        assert ledger.prune(older_than, now_millis=at_millis + 90 * DAY + 1).postings == 1


def test_the_limit_beside_what_is_older(database_url: str, clock: RunningClock) -> None:
    """Of two postings of one day the older one goes a millisecond before the other."""
    with opened(database_url, clock) as ledger:
        ledger.open_account("p1", Decimal(1))
        ledger.open_account("p2", Decimal(2))
        damage(database_url, later("p2", 2))
        at_millis = max(row[0] for row in rows(database_url, "SELECT at_millis FROM {p}postings"))
        assert ledger.prune(QUARTER, now_millis=at_millis + 90 * DAY).postings == 1
        assert ledger.prune(QUARTER, now_millis=at_millis + 90 * DAY + 1).postings == 1
        assert ledger.verify().findings == ()


def test_days_among_each_others_ids(sqlite_url: str, clock: RunningClock) -> None:
    """A day's postings are folded with their own slice, also where a later day's id stands between theirs."""
    with opened(sqlite_url, clock) as ledger:
        for player in ("p1", "p2", "p3", "p4"):
            ledger.open_account(player, Decimal(1))
        damage(sqlite_url, [*later("p2", DAY), *later("p4", DAY)])
        assert ledger.maintain().sound
        of_p2, of_p4 = (row[0] for row in rows(sqlite_url, "SELECT at_millis FROM {p}postings WHERE id IN (2, 4)"))
        for since_millis, count in ((of_p2, 2), (of_p4, 1), (of_p4 + 1, 1)):
            assert ledger.prune(QUARTER, now_millis=since_millis + 90 * DAY).postings == count
            assert ledger.verify(full=True).findings == ()


def test_a_slice_with_findings_stays(sqlite_url: str, clock: RunningClock) -> None:
    """Folded, nobody could look at what is wrong in it."""
    with opened(sqlite_url, clock) as ledger:
        played(ledger)
        ledger.maintain()
        run(sqlite_url, "UPDATE {p}slices SET findings = 1")
        assert ledger.prune(QUARTER, now_millis=clock.millis + 91 * DAY).postings == 0
        run(sqlite_url, "UPDATE {p}slices SET findings = 0")
        assert ledger.prune(QUARTER, now_millis=clock.millis + 91 * DAY).postings == 8


def test_the_last_day_that_is_old_enough(sqlite_url: str, clock: RunningClock) -> None:
    """It is folded though everything is sealed already, and no other day is old."""
    with opened(sqlite_url, clock) as ledger:
        ledger.open_account("p1", Decimal(1))
        assert ledger.maintain().sealed == 1
        (at_millis,) = rows(sqlite_url, "SELECT at_millis FROM {p}postings")[0]
        assert ledger.prune(QUARTER, now_millis=at_millis + 90 * DAY + 1).postings == 1


def test_batches_go_on_to_the_end(sqlite_url: str, clock: RunningClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """One body of a call, and one of an anomaly, in each batch."""
    monkeypatch.setattr(module, "_BATCH", 1)
    with opened(sqlite_url, clock) as ledger:
        played(ledger, [claim("c1"), claim("c2"), claim("c3")])
        for bet_id in ("e1", "e2", "e3"):
            ledger.apply(with_body(deposit(bet_id)))
        for record in list(ledger.anomalies()):
            ledger.resolve(record.id)
        report = ledger.prune(QUARTER, now_millis=clock.millis + 91 * DAY)
        assert (report.calls, report.anomalies) == (3, 3)


def test_the_body_of_an_open_bets_withdraw_stays(sqlite_url: str, clock: RunningClock) -> None:
    """Older programs kept it; that of a bet that is closed goes."""
    with opened(sqlite_url, clock) as ledger:
        played(ledger)
        run(
            sqlite_url, "UPDATE {p}calls SET body = X'7B7D' WHERE tx_id IN ('withdraw:bet:open', 'withdraw:bet:closed')"
        )
        ledger.prune(QUARTER, now_millis=clock.millis + 91 * DAY)
        assert rows(sqlite_url, "SELECT tx_id FROM {p}calls WHERE body IS NOT NULL") == [("withdraw:bet:open",)]


def test_checkpoints_when_all_is_folded(sqlite_url: str, clock: RunningClock) -> None:
    """Accounts that are sealed and folded go on with ids that are given again."""
    with opened(sqlite_url, clock) as ledger:
        played(ledger, [call for call in HISTORY if getattr(call, "bet_id", "") != "open"])
        assert ledger.maintain().sound
        ledger.prune(QUARTER, now_millis=clock.millis + 91 * DAY)
        highest = rows(sqlite_url, "SELECT MAX(last_id) FROM {p}checkpoints")[0][0]
        assert highest == rows(sqlite_url, "SELECT COALESCE(MAX(id), 0) FROM {p}postings")[0][0]
        clock.millis += 91 * DAY
        assert ledger.apply(withdraw("later")).applied
        assert ledger.maintain().sound
        assert ledger.verify(full=True).findings == ()


def test_the_limit_of_a_body_to_the_millisecond(database_url: str, clock: RunningClock) -> None:
    """The same for the body of a claim, when an older one beside it goes."""
    with opened(database_url, clock) as ledger:
        played(ledger, [claim("c1"), claim("c2")])
        at_millis = max(row[0] for row in rows(database_url, "SELECT at_millis FROM {p}calls WHERE body IS NOT NULL"))
        ledger.prune(QUARTER, now_millis=at_millis + 90 * DAY)
        assert len(rows(database_url, "SELECT tx_id FROM {p}calls WHERE body IS NOT NULL")) == 1
        assert ledger.prune(QUARTER, now_millis=at_millis + 90 * DAY + 1).calls == 1


def test_the_clock_that_counts(database_url: str, clock: RunningClock) -> None:
    """Nothing said, SQLite goes by this machine's clock and PostgreSQL by the server's."""
    with opened(database_url, clock) as ledger:
        ledger.open_account("p1", Decimal(1))
        now = now_of(ledger, database_url, clock)
        assert abs(ledger.prune(QUARTER).before_millis - (now - 90 * DAY)) < 60_000
        clock.millis += 200 * DAY
        ledger.adjust("p1", Decimal(1), reference="so that somebody was here lately")
        assert ledger.prune(QUARTER).postings == (1 if is_sqlite(database_url) else 0)


def test_again_and_again(database_url: str, clock: RunningClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was carried forward is folded into the next, one for each account; small batches come to the same."""
    monkeypatch.setattr(module, "_BATCH", 2)
    with opened(database_url, clock) as ledger:
        played(ledger)
        ledger.open_account("p2", Decimal(7))
        ledger.open_account("p3")
        for number in range(5):
            ledger.apply(withdraw(f"more-{number}", player_id="p2", amount_cents=1))
            ledger.apply(deposit(f"more-{number}", player_id="p2", amount_cents=1))
            if number % 2:
                ledger.prune(QUARTER, now_millis=now_of(ledger, database_url, clock) + 91 * DAY)
                assert ledger.verify().findings == ()
        ledger.apply(deposit("open"))
        ledger.prune(QUARTER, now_millis=now_of(ledger, database_url, clock) + 91 * DAY)
        assert ledger.verify().findings == ()
        assert rows(database_url, "SELECT COUNT(*) FROM {p}calls WHERE body IS NOT NULL") == [(0,)]
        carried = rows(database_url, "SELECT account, cents FROM {p}carried ORDER BY account")
    assert carried == [("p1", BALANCE + 1250), ("p2", 700)]


def test_all_is_folded_and_ids_are_given_again(sqlite_url: str, clock: RunningClock) -> None:
    """SQLite gives the highest ids again once their postings are gone: no time seems to go back."""
    with opened(sqlite_url, clock) as ledger:
        played(ledger, [call for call in HISTORY if getattr(call, "bet_id", "") != "open"])
        ledger.prune(QUARTER, now_millis=clock.millis + 91 * DAY)
        assert rows(sqlite_url, "SELECT COUNT(*) FROM {p}postings") == [(0,)]
        clock.millis += 91 * DAY
        for number in range(4):
            assert ledger.apply(withdraw(f"later-{number}")).applied
            assert ledger.verify().findings == ()
            assert ledger.verify(full=True).findings == ()
        clock.millis += 91 * DAY
        assert ledger.apply(deposit("later-0")).applied
        assert ledger.maintain().findings == ()
        assert ledger.verify(full=True).findings == ()


def test_an_older_cut_off_after_a_newer_one(database_url: str, clock: RunningClock) -> None:
    """What the newer one has folded stays known as folded: the books do not miss it, and nothing comes back."""
    with opened(database_url, clock) as ledger:
        played(ledger)
        now = now_of(ledger, database_url, clock)
        newer = ledger.prune(QUARTER, now_millis=now + 91 * DAY)
        older = ledger.prune(QUARTER, now_millis=now + 89 * DAY)
        assert older.before_millis < newer.before_millis
        assert (older.calls, older.postings, older.anomalies) == (0, 0, 0)
        report = ledger.verify()
        assert (report.findings, report.pruned_before_millis) == ((), newer.before_millis)


def test_an_account_that_comes_to_nothing_or_less(database_url: str, clock: RunningClock) -> None:
    """Movements that cancel out leave no posting; an account that lost more than it brought is carried as a debit."""
    with opened(database_url, clock) as ledger:
        ledger.open_account("p1", Decimal(5))
        ledger.adjust("p1", Decimal(-5), reference="out")
        ledger.open_account("p2", Decimal(5))
        ledger.adjust("p2", Decimal(-3), reference="p2-out")
        # As it is when a balance was brought along from elsewhere, without a posting.
        damage(
            database_url,
            [
                "DELETE FROM {p}postings WHERE tx_id = 'p2'",
                "UPDATE {p}calls SET amount_cents = 0 WHERE tx_id = 'p2'",
                "UPDATE {p}accounts SET balance_cents = -300 WHERE account = 'p2'",
            ],
        )
        ledger.prune(QUARTER, now_millis=now_of(ledger, database_url, clock) + 91 * DAY)
        assert rows(database_url, "SELECT account, cents FROM {p}carried ORDER BY account") == [("p1", 0), ("p2", -300)]
        assert ledger.verify().findings == ()


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param(
            "UPDATE {p}carried SET cents = cents + 1",
            {"balance_differs", "carried_differs"},
            id="the sum carried forward",
        ),
        pytest.param(
            "DELETE FROM {p}carried",
            {"balance_differs", "carried_differs"},
            id="all that was carried forward",
        ),
        pytest.param(
            "UPDATE {p}calls SET amount_cents = amount_cents + 1 WHERE tx_id = 'claim-1'",
            {"carried_differs", "totals_differ"},
            id="a claim whose posting is folded",
        ),
        pytest.param(
            "DELETE FROM {p}postings WHERE tx_id = 'withdraw:bet:open'",
            {"balance_differs", "carried_differs", "slice_differs"},
            id="the posting of an open bet",
        ),
        pytest.param(
            "UPDATE {p}postings SET amount_cents = amount_cents + 1 WHERE tx_id = 'withdraw:bet:open'",
            {"balance_differs", "slice_differs", "wrong_posting"},
            id="the amount of an open bet's posting",
        ),
        pytest.param(
            "UPDATE {p}postings SET from_account = 'p2' WHERE tx_id = 'withdraw:bet:open'",
            {"balance_differs", "no_account", "slice_differs", "wrong_account"},
            id="the account of an open bet's posting",
        ),
    ],
)
def test_damage_after_a_prune_is_found(
    database_url: str, clock: RunningClock, statement: str, expected: set[str]
) -> None:
    """The sum carried forward must be that of the calls whose postings it stands for."""
    with opened(database_url, clock) as ledger:
        played(ledger)
        ledger.prune(QUARTER, now_millis=now_of(ledger, database_url, clock) + 91 * DAY)
        damage(database_url, [statement])
        assert {finding.kind for finding in ledger.verify().findings} == expected


def test_a_posting_without_its_call_is_not_folded(database_url: str, clock: RunningClock) -> None:
    """Damage is not tidied away."""
    with opened(database_url, clock) as ledger:
        played(ledger)
        damage(database_url, ["DELETE FROM {p}calls WHERE tx_id = 'claim-1'"])
        ledger.prune(QUARTER, now_millis=now_of(ledger, database_url, clock) + 91 * DAY)
        assert {finding.kind for finding in ledger.verify().findings} == {"posting_without_call"}


def test_anomalies_keep_their_bodies_until_they_are_resolved(database_url: str, clock: RunningClock) -> None:
    """Somebody has still to look at the others; a body that is gone is counted all the same."""
    early = with_body(deposit("early"))
    with opened(database_url, clock) as ledger:
        ledger.open_account("p1", Decimal(100))
        for call in (early, with_body(rollback("tomb", tx_id="withdraw:bet:tomb"))):
            ledger.apply(call)
        first, _ = ledger.anomalies()
        ledger.resolve(first.id)
        assert ledger.prune(QUARTER, now_millis=now_of(ledger, database_url, clock) + 89 * DAY).anomalies == 0
        later = now_of(ledger, database_url, clock) + 91 * DAY
        assert ledger.prune(QUARTER, now_millis=later).anomalies == 1
        assert ledger.prune(QUARTER, now_millis=later).anomalies == 0
        ledger.apply(early)
        seen = [(record.kind, record.body == b"", record.seen) for record in ledger.anomalies(resolved=None)]
        assert seen == [("early_deposit", True, 2), ("early_rollback", False, 1)]


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("UPDATE {p}postings SET amount_cents = 1", id="update"),
        pytest.param("DELETE FROM {p}postings", id="delete"),
        pytest.param("TRUNCATE {p}postings", id="truncate"),
    ],
)
def test_postings_are_not_changed_outside_prune(database_url: str, clock: RunningClock, statement: str) -> None:
    """The database itself refuses it, before and after a prune; TRUNCATE is PostgreSQL's alone."""
    if is_sqlite(database_url) and statement.startswith("TRUNCATE"):
        statement = "REPLACE INTO {p}postings SELECT * FROM {p}postings"
    with opened(database_url, clock) as ledger:
        played(ledger)
        for _ in range(2):
            before = rows(database_url, "SELECT * FROM {p}postings ORDER BY id")
            with pytest.raises(Exception, match="postings are never"):
                run(database_url, statement)
            assert rows(database_url, "SELECT * FROM {p}postings ORDER BY id") == before
            ledger.prune(QUARTER, now_millis=now_of(ledger, database_url, clock) + 91 * DAY)
        assert ledger.verify().findings == ()


@pytest.mark.slow
def test_while_calls_go_on(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that prune, in small batches, beside threads that play: no money moves, and each book in between is sound."""
    monkeypatch.setattr(module, "_BATCH", 50)
    monkeypatch.setattr(base, "PAUSE_SECONDS", 0.02)
    stop, begun = threading.Event(), threading.Barrier(4)
    ledger, other = (SqlLedger(database_url, patience_seconds=30) for _ in range(2))
    with ledger, other, ThreadPoolExecutor(5) as threads:
        for name in range(3):
            ledger.open_account(f"p{name}", Decimal(1_000))
            list(threads.map(lambda n, name=name: ledger.apply(withdraw(f"old-{name}-{n}", f"p{name}", 1)), range(40)))
            list(threads.map(lambda n, name=name: ledger.apply(deposit(f"old-{name}-{n}", f"p{name}", 3)), range(20)))

        def play(name: int) -> int:
            done = 0
            # An end of its own: in the year 2100 whatever is played meanwhile is old as well.
            while not stop.is_set() and done < 60:
                assert ledger.apply(withdraw(f"b{name}-{done}", f"p{name}", 1)).code is None
                assert ledger.apply(deposit(f"b{name}-{done}", f"p{name}", 3)).code is None
                done += 1
                if done == 1:
                    begun.wait(60)
            return done

        def prune(one: SqlLedger) -> PruneReport:
            return one.prune(QUARTER, now_millis=4_102_444_800_000)

        playing = [threads.submit(play, name) for name in range(3)]
        try:
            begun.wait(60)
            pruning = [threads.submit(prune, one) for one in (ledger, other)]
            while not all(each.done() for each in pruning):
                assert ledger.verify().findings == ()
        finally:
            stop.set()
        rounds = sum(each.result() for each in playing)
        folded = sum(each.result().postings for each in pruning)
        report = ledger.verify()
    assert report.findings == ()
    assert report.balances_cents == 300_000 - 3 * 40 + 3 * 20 * 3 + 2 * rounds
    assert folded >= 3 * 41
    assert rounds >= 3


async def test_awaited(database_url: str) -> None:
    """An AsyncSqlLedger prunes alike."""
    async with AsyncSqlLedger(database_url) as ledger:
        await ledger.open_account("p1", Decimal(100))
        for call in HISTORY:
            await ledger.apply(call)
        report = await ledger.prune(QUARTER, now_millis=4_102_444_800_000)
        assert (report.calls, report.postings) == (2, 8)
        assert (await ledger.verify()).findings == ()
        with pytest.raises(ValueError, match="90 days"):
            await ledger.prune(1)
