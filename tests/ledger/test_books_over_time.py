"""
Months of a ledger in a few seconds: calls in and out of turn, clocks that were wrong, maintain, drop and damaged rows.

A tiny model knows what each call must be answered and what each player holds. Sound books are sound to ``verify`` and
to ``verify --full`` alike; a row that somebody changed or deleted is found in time, and the books are sound again once
it is as it was.
"""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from game_operator.ledger import MaintainReport
from game_operator.ledger.books import maintain, verify, whole_books
from game_operator.models.webhooks import MovingCall
from game_operator.money import amount_from_cents
from tests.support.calendar import DAY_MILLIS, Calendar
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.raw_sql import damage, is_sqlite, rows
from tests.support.seeds import random_of
from tests.support.wallet_model import WalletModel

pytestmark = pytest.mark.outside

PLAYERS = ("p1", "p2", "p3")
#: Everything is read again within so many days.
_DAYS = 30
_MARK = "SELECT value FROM {p}meta WHERE name = "


class Damage(NamedTuple):
    """
    How one row is damaged.

    Attributes:
        table: Of which table; a row of it is chosen by ``where``.
        column: What is raised by one, and lowered again; None if the row is deleted, and stored again.
        where: Which rows can be damaged so that the damage can be seen.
        since: Which of them came after the checkpoint: these ``verify`` finds at once.
    """

    table: str
    column: str | None
    where: str = "1 = 1"
    since: str | None = None


_IN_POSTINGS = f"id > ({_MARK}'checkpoint_position')"
_AFTER = f"> ({_MARK}'checkpoint_millis')"
_OF_BETS = (
    "operation IN ('withdraw', 'deposit') AND code IS NULL AND EXISTS (SELECT 1 FROM {p}bets AS b "
    "WHERE b.bet_id = calls.bet_id AND (b.withdraw_tx_id = calls.tx_id OR b.deposit_tx_id = calls.tx_id))"
)
_MOVED = "state NOT IN ('TOMBSTONE', 'DECLINED')"
DAMAGES = (
    Damage("postings", "amount_cents", since=_IN_POSTINGS),
    Damage("postings", None, since=_IN_POSTINGS),
    Damage("calls", "amount_cents", _OF_BETS, f"at_millis {_AFTER}"),
    Damage("calls", None, _OF_BETS, f"at_millis {_AFTER}"),
    Damage("bets", "wager_cents", _MOVED, f"opened_at_millis {_AFTER}"),
    Damage("bets", None, _MOVED, f"opened_at_millis {_AFTER}"),
    Damage("accounts", "balance_cents", since="1 = 1"),
    Damage("carried", "cents"),
    Damage("checkpoints", "cents", since="1 = 1"),
    Damage("slices", "cents", "folded_at_millis IS NULL"),
)


class History:
    """A ledger, its model, and what happens to both."""

    def __init__(self, calendar: Calendar, random: Random) -> None:
        self.calendar, self.random = calendar, random
        self.model = WalletModel({})
        self.bets: list[str] = []
        self.sent: list[MovingCall] = []
        self.done: list[str] = []
        self.count = self.damaged = self.nights = self.calls = 0
        self.ledger = calendar.ledger()
        for player_id in PLAYERS:
            self.ledger.open_account(player_id, Decimal(50))
            self.model.money[player_id] = 5_000

    def play(self) -> None:
        """Send some calls: new bets, the ends of old ones, repeats, and what does not fit."""
        for _ in range(self.random.randint(1, 25)):
            call = self._call()
            before = self.model.money.get(call.player_id)
            outcome = self.ledger.apply(call)
            assert outcome.code == self.model.answer(call), (call, outcome)
            assert outcome.balance_cents == self.model.money.get(call.player_id)
            assert outcome.applied or self.model.money.get(call.player_id) == before
            self.sent.append(call)
            self.calls += 1

    def _call(self) -> MovingCall:
        random, player_id = self.random, self.random.choice(PLAYERS)
        kind = random.choices(("new", "end", "cancel", "again", "claim"), (8, 8, 3, 3, 2))[0]
        self.count += 1
        if kind == "again" and self.sent:
            return random.choice(self.sent)
        if kind == "claim":
            return claim(f"claim-{self.count}", player_id, random.randint(1, 300))
        if kind == "new" or not self.bets:
            self.bets.append(f"bet-{self.count}")
            action = "RAIN" if random.random() < 0.1 else "BET"
            return withdraw(self.bets[-1], player_id, random.randint(1, 400), action=action)
        # Mostly of late, and at times of long ago.
        bet_id = random.choice(self.bets[-8:] if random.random() < 0.8 else self.bets)
        known = self.model.bets.get(bet_id)
        if known is not None and random.random() < 0.9:
            player_id = known["player"]
        if kind == "end":
            return deposit(bet_id, player_id, random.choice((0, 0, random.randint(1, 900))))
        return rollback(bet_id, player_id, None)

    def wait(self) -> None:
        """Let time pass; nobody maintains a ledger in which nothing was posted for a month."""
        self.calendar.move(self.random.choice((0.01, 0.5, 1, 1, 3, 10, 25)))
        self._pay()

    def _pay(self) -> None:
        self.count += 1
        player_id, cents = self.random.choice(PLAYERS), self.random.randint(1, 200)
        self.ledger.adjust(player_id, amount_from_cents(cents), reference=f"payment-{self.count}")
        self.model.money[player_id] += cents

    def maintain(self) -> MaintainReport:
        """Maintain all there is."""
        report = self.ledger.maintain()
        assert report.finished
        return report

    def maintain_in_parts(self) -> None:
        """Maintain for no time at all, or a little."""
        assert self.ledger.maintain(seconds=self.random.choice((0, 0.02))).sound

    def drop(self) -> None:
        """Maintain, and drop what is old."""
        assert self.ledger.maintain(drop_after=timedelta(days=90)).sound

    def restart(self) -> None:
        """Begin anew, as after a deploy."""
        self.ledger.close()
        self.ledger = self.calendar.ledger()

    def clock_ahead(self) -> None:
        """Play a little with a clock that is ahead, and correct it."""
        ahead = self.random.choice((2, 20, 200))
        self.calendar.move(ahead)
        self.play()
        self.calendar.move(-ahead)
        self.restart()
        for player_id, at_millis in rows(self.calendar.url, "SELECT account, at_millis FROM {p}accounts"):
            if at_millis > self.calendar() + 60_000:
                self.ledger.correct_time(player_id)
        self._pay()

    def damage(self) -> None:
        """Damage a row and see it found; then make it as it was, and see the books sound."""
        kind = self.random.choice(DAMAGES)
        # What is closed while a posting is missing stays so, even once the posting is back.
        self.calendar.move(1)
        self.ledger.close_totals()
        found = self._row(kind)
        if found is None:
            return
        row, is_news = found
        at_once, undo = _statements(kind, row)
        damage(self.calendar.url, at_once)
        said = f"{kind} {row}"
        assert self.ledger.verify(full=True).findings, said
        if is_news:
            assert self.ledger.verify().findings, said
        if not is_news or kind.table != "postings":  # What is sealed as it is must stay so.
            self._found_in_time(said)
        damage(self.calendar.url, undo)
        report = self.maintain()
        assert report.sound, (said, report.findings)
        self.damaged += 1

    def _row(self, kind: Damage) -> tuple[str, bool] | None:
        """Return which row to damage, as a condition, and whether it came after the checkpoint."""
        wants_news = kind.since is not None and self.random.random() < 0.5
        where, keys = kind.where, _KEYS[kind.table]
        if kind.since is not None:
            where += f" AND {'' if wants_news or kind.since == '1 = 1' else 'NOT '}{kind.since}"
        if kind.table in _TIMES:
            where += f" AND {_TIMES[kind.table]} < {self.calendar() // DAY_MILLIS * DAY_MILLIS}"
        sql = f"SELECT {', '.join(keys)} FROM {{p}}{kind.table} AS {kind.table} WHERE {where}"
        found = rows(self.calendar.url, sql)
        if not found:
            return None
        chosen = zip(keys, self.random.choice(sorted(found, key=str)), strict=True)
        return " AND ".join(f"{key} = '{value}'" for key, value in chosen), wants_news

    def _found_in_time(self, said: str) -> None:
        """Maintain night after night until the damage is found, which is so within 30 days."""
        passed = 0.0
        while passed < _DAYS:
            nights = self.random.choice((1, 2, 5)) if is_sqlite(self.calendar.url) else 6
            self.calendar.move(nights)
            passed += nights
            self.nights += 1
            self._pay()
            if self.maintain().findings:
                return
        raise AssertionError(f"not found within {_DAYS} days: {said}")

    def check(self) -> None:
        """The books are sound both ways, and hold what the model does."""
        news, full = self.ledger.verify(), self.ledger.verify(full=True)
        assert (news.findings, full.findings) == ((), ()), self.done
        held = sum(self.model.money.values())
        for report in (news, full):
            assert (report.balances_cents, report.house_cents) == (held, -held)
        for player_id, cents in self.model.money.items():
            assert self.ledger.balance(player_id) == cents
        states: dict[str, int] = {}
        for bet in self.model.bets.values():
            states[bet["state"]] = states.get(bet["state"], 0) + 1
        assert full.bets == states


#: The column that says of which day a row is.
_TIMES = {"postings": "at_millis", "calls": "at_millis", "bets": "opened_at_millis"}
_KEYS = {
    "postings": ("id",),
    "calls": ("source", "operation", "tx_id"),
    "bets": ("source", "bet_id"),
    "accounts": ("account",),
    "carried": ("account",),
    "checkpoints": ("account",),
    "slices": ("day", "last_id"),
}


def _statements(kind: Damage, row: str) -> tuple[list[str], list[str]]:
    """Return what damages *row*, and what undoes it."""
    table = f"{{p}}{kind.table}"
    if kind.column is not None:
        text = f"UPDATE {table} SET {kind.column} = {kind.column} %s 1 WHERE {row}"
        return [text % "+"], [text % "-"]
    kept = f"CREATE TABLE kept AS SELECT * FROM {table} WHERE {row}"
    return [kept, f"DELETE FROM {table} WHERE {row}"], [f"INSERT INTO {table} SELECT * FROM kept", "DROP TABLE kept"]


#: What may happen next, and how often it does.
_ACTIONS: dict[Callable[[History], object], int] = {
    History.play: 8,
    History.wait: 6,
    History.maintain: 4,
    History.maintain_in_parts: 2,
    History.drop: 2,
    History.restart: 1,
    History.clock_ahead: 1,
    History.damage: 3,
}


def _lived(url: str, seed: int, steps: int) -> History:
    random = random_of(seed)
    with Calendar(url, -400 - random.random()) as calendar:
        history = History(calendar, random)
        try:
            for _ in range(steps):
                (action,) = random.choices(list(_ACTIONS), list(_ACTIONS.values()))
                action(history)
                history.done.append(action.__name__)
                history.check()
        finally:
            history.ledger.close()
    return history


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be many of them."""
    monkeypatch.setattr(maintain, "WINDOW", 30)
    for name, most in (("_ACCOUNTS", 2), ("_BETS", 15), ("_POSTINGS", 20), ("_SLICES", 7)):
        for module in (verify, whole_books):
            monkeypatch.setattr(module, name, most, raising=False)


def test_a_few_months(sqlite_url: str) -> None:
    """A short history."""
    _lived(sqlite_url, 1, 8)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("kind", "histories"), [("sqlite", 40), ("postgres", 6)])
def test_many_months(kind: str, histories: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Longer ones, and many of them."""
    lived = []
    for seed in range(histories):
        url = f"sqlite:///{tmp_path / f'{seed}.db'}"
        if kind == "postgres":
            url = request.getfixturevalue("postgres").create_database()
        lived.append(_lived(url, 100 + seed, 40))
    calls, damaged, nights = (sum(getattr(each, name) for each in lived) for name in ("calls", "damaged", "nights"))
    record = request.getfixturevalue("record_property")
    record(
        "figures", f"{kind}: {histories} histories, {calls} calls, {damaged} rows damaged, {nights} nights until found"
    )
