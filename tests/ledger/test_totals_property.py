"""The sum of totals is the sum of postings, in any history of calls, closes, prunes, late entries and wrong clocks."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from game_operator.ledger import SqlLedger, Terms, TotalsRow
from game_operator.ledger.books.totals import KINDS
from game_operator.models.webhooks import MovingCall
from game_operator.money import amount_from_cents
from game_operator.profile import Profile
from tests.support.calls import claim, deposit, rollback, withdraw
from tests.support.machines import InFile, run_machine
from tests.support.postgres import PostgresServer
from tests.support.raw_sql import damage, is_sqlite, rows
from tests.support.retention import drop

pytestmark = pytest.mark.slow

T = TypeVar("T")
DAY = 86_400_000
BEGIN = 1_700_000_000_000
PLAYERS = st.sampled_from(["p1", "p2"])
BETS = st.integers(0, 5)
#: The largest would overflow a sum of 63 bits on the second day of its kind.
CENTS = st.sampled_from([1, 100, 250, 10**12])
SOURCES = st.sampled_from(["", "other"])
INSTANCES = st.sampled_from([None, "i1", "i2"])
GAMES = st.sampled_from([None, "aviator"])
CURRENCIES = st.sampled_from([None, "EUR", "USD"])
RULES = Profile(claim_types=("FREE_BET_CLAIM", "JACKPOT", "CASHBACK"))
POSTED = (
    "SELECT p.id, p.source, p.operation, p.tx_id, p.at_millis, "
    "CASE WHEN p.to_account IS NULL THEN -p.amount_cents ELSE p.amount_cents END, c.action, c.bet_id, c.instance_id, "
    "c.game, c.currency FROM {p}postings AS p "
    "LEFT JOIN {p}calls AS c ON c.source = p.source AND c.operation = p.operation AND c.tx_id = p.tx_id ORDER BY p.id"
)


class _Machine(RuleBasedStateMachine):
    """A ledger over months, and a list of all that was ever posted."""

    def __init__(self) -> None:
        super().__init__()
        self.url = self.made_url()
        self.now = BEGIN
        self.numbers = 0
        self.seen: dict[tuple[str, str, str], tuple[Any, ...]] = {}
        self.closed: dict[TotalsRow, None] = {}
        self.closed_before = 0
        self.currency: str | None = None
        self.open_ledger()
        for player in ("p1", "p2"):
            self.ledger.open_account(player, amount_from_cents(10**13))
        self.ledger.add_source("")
        self.ledger.add_source("other")
        self.moved()

    @abstractmethod
    def made_url(self) -> str:
        """Return the URL of an empty database."""

    def open_ledger(self) -> None:
        self.ledger = SqlLedger(self.url, clock_millis=lambda: self.now)

    def teardown(self) -> None:
        self.ledger.close()

    def moved(self) -> None:
        """Take notice of what was posted; on PostgreSQL, whose clock is the server's, bring it to our time."""
        if not is_sqlite(self.url):
            known = {row[0] for row in self.seen.values()}
            late = [row for row in rows(self.url, POSTED) if row[2] != "carry" and row[1:4] not in self.seen]
            assert not known & {row[0] for row in late}
            for row in late:
                where = f"source = '{row[1]}' AND operation = '{row[2]}' AND tx_id = '{row[3]}'"
                damage(
                    self.url,
                    [f"UPDATE {{p}}{t} SET at_millis = {self.now} WHERE {where}" for t in ("postings", "calls")],
                )
        for row in rows(self.url, POSTED):
            if row[2] != "carry":
                self.seen.setdefault(row[1:4], row)
        self.now += 1

    def apply(self, call: MovingCall, source: str) -> None:
        self.ledger.apply(call, terms=Terms(rules=RULES, source=source, currency_of=lambda _: self.currency))
        self.moved()

    @rule(bet=BETS, player=PLAYERS, cents=CENTS, source=SOURCES, action=st.sampled_from(["BET", "BET", "RAIN"]),
          instance=INSTANCES, game=GAMES, currency=CURRENCIES)  # fmt: skip
    def withdraw(self, bet: int, player: str, cents: int, source: str, action: str, instance: str | None,
                 game: str | None, currency: str | None) -> None:  # fmt: skip
        """A player places a bet."""
        self.currency = currency
        more: dict[str, Any] = {"action": action, "instance_id": instance, "game": game}
        self.apply(withdraw(f"b{bet}", player, cents, **more), source)

    @rule(bet=BETS, player=PLAYERS, cents=CENTS, source=SOURCES, instance=INSTANCES, currency=CURRENCIES)
    def deposit(
        self, bet: int, player: str, cents: int, source: str, instance: str | None, currency: str | None
    ) -> None:
        """A bet settles; the deposit may say another instance and currency."""
        self.currency = currency
        self.apply(deposit(f"b{bet}", player, cents, instance_id=instance), source)

    @rule(bet=BETS, player=PLAYERS, source=SOURCES)
    def rollback(self, bet: int, player: str, source: str) -> None:
        """A bet is cancelled."""
        self.apply(rollback(f"b{bet}", player, None), source)

    @rule(bet=st.none() | BETS, player=PLAYERS, cents=CENTS, source=SOURCES, instance=INSTANCES, currency=CURRENCIES,
          action=st.sampled_from(["FREE_BET_CLAIM", "JACKPOT", "CASHBACK"]))  # fmt: skip
    def claim(self, bet: int | None, player: str, cents: int, source: str, instance: str | None,
              currency: str | None, action: str) -> None:  # fmt: skip
        """Free bets, a jackpot or something else is paid; it may name a bet."""
        self.numbers += 1
        self.currency = currency
        named = None if bet is None else f"b{bet}"
        self.apply(claim(f"c{self.numbers}", player, cents, named, action, instance_id=instance), source)

    @rule(player=PLAYERS, cents=st.sampled_from([400, -400]))
    def adjust(self, player: str, cents: int) -> None:
        """Money comes and goes from outside games."""
        self.numbers += 1
        self.ledger.adjust(player, amount_from_cents(cents), reference=f"payment-{self.numbers}")
        self.moved()

    @rule(days=st.sampled_from([1, 1, 2, 40]))
    def later(self, days: int) -> None:
        """Days go by."""
        self.now += days * DAY

    @rule(days=st.integers(1, 3))
    def late_entry(self, days: int) -> None:
        """A process whose clock is behind opens an account."""
        self.numbers += 1
        now, self.now = self.now, self.now - days * DAY
        self.restart()
        self.ledger.open_account(f"late-{self.numbers}", amount_from_cents(77))
        self.moved()
        self.now = now
        self.restart()

    @rule(player=PLAYERS)
    def wrong_clock(self, player: str) -> None:
        """A clock is a year ahead for one movement, and somebody sets it right."""
        if not is_sqlite(self.url):
            return
        self.numbers += 1
        now, self.now = self.now, self.now + 365 * DAY
        self.ledger.adjust(player, amount_from_cents(5), reference=f"ahead-{self.numbers}")
        self.moved()
        self.now = now
        self.restart()
        self.ledger.correct_time(player)

    @rule()
    def restart(self) -> None:
        """The program ends and begins again."""
        self.ledger.close()
        self.open_ledger()

    @rule()
    def close_days(self) -> None:
        """Finished days are closed; again, nothing is left to store."""
        self.ledger.close_totals(now_millis=self.now)
        before = rows(self.url, "SELECT * FROM {p}totals")
        assert self.ledger.close_totals(now_millis=self.now).postings == 0
        assert rows(self.url, "SELECT * FROM {p}totals") == before
        self.closed_before = max(self.closed_before, self.now // DAY)
        self.closed |= dict.fromkeys(self.rows_of_closed_days())

    @precondition(lambda self: self.now > BEGIN + 95 * DAY)
    @rule()
    def drop(self) -> None:
        """What is old is folded."""
        drop(self.ledger, self.now)

    def rows_of_closed_days(self) -> list[TotalsRow]:
        report = self.ledger.totals(until_millis=self.closed_before * DAY)
        return [row for row in report.rows if not row.late]

    def expected(self) -> dict[tuple[Any, ...], int]:
        """Return the sums of all that was ever posted, by day, game, instance, currency and kind."""
        bets = {
            (source, bet_id): (state, action, instance, game, currency, deposit_tx_id)
            for source, bet_id, state, action, instance, game, currency, deposit_tx_id in rows(
                self.url,
                "SELECT source, bet_id, state, action, instance_id, game, currency, deposit_tx_id FROM {p}bets",
            )
        }
        sums: Counter[tuple[Any, ...]] = Counter()
        for row in self.seen.values():
            _, source, operation, tx_id, at_millis, cents, action, bet_id, *own = row
            state, bets_action, *bets_own, deposit_tx_id = bets.get((source, bet_id), (None,) * 6)
            is_claim = operation == "deposit" and deposit_tx_id != tx_id
            kind = {"open": "openings", "adjust": "adjustments"}.get(operation, "")
            if is_claim:
                kind = {"FREE_BET_CLAIM": "free_bets", "JACKPOT": "jackpots"}.get(action, "claims")
            elif not kind:
                names = {"withdraw": "wagers", "deposit": "wins", "rollback": "refunds"}
                rain = {"withdraw": "rain", "rollback": "rain_refunds"}
                kind = (rain if bets_action == "RAIN" else names)[operation]
            # A claim has its own: the bet that it names may come later.
            instance, game = ((not is_claim and bets_own[n]) or own[n] or "" for n in (0, 1))
            currency = (own if is_claim or state is None else bets_own)[2] or "unknown"
            group = (at_millis // DAY, game, instance, currency)
            sums[*group, kind] += 1
            sums[*group, f"{kind}_cents"] += -cents if operation == "withdraw" else cents
        return _without_zeros(sums)

    @invariant()
    def totals_are_the_postings(self) -> None:
        """Each posting is in one row: of its day, game, instance, currency and kind. And nothing else is."""
        report = self.ledger.totals()
        found: Counter[tuple[Any, ...]] = Counter()
        for row in report.rows:
            assert row.day is not None
            day = date.fromisoformat(row.day).toordinal() - date(1970, 1, 1).toordinal()
            for name in TotalsRow._fields[5:]:
                found[day, row.game, row.instance, row.currency, name] += getattr(row, name)
        assert _without_zeros(found) == self.expected()
        balances = rows(self.url, "SELECT SUM(balance_cents) FROM {p}accounts")[0][0]
        assert sum(row.players_cents for row in report.rows) == balances

    @invariant()
    def parts_are_the_whole(self) -> None:
        """Whatever it is grouped by and cut into, it sums up to the same; currencies stay apart."""
        whole = self.ledger.totals().by_currency()
        assert self.ledger.totals(by=()).by_currency() == whole
        assert self.ledger.totals(by=["game"]).by_currency() == whole
        cut = self.now // DAY * DAY
        halves = [self.ledger.totals(since_millis=cut), self.ledger.totals(until_millis=cut)]
        sources = [self.ledger.totals(source=name) for name in ("", "other", "strange")]
        for parts in (halves, sources):
            sums: Counter[tuple[str, str]] = Counter()
            for part in parts:
                for row in part.by_currency():
                    for name in KINDS:
                        sums[row.currency, name] += getattr(row, f"{name}_cents")
            wanted = {(row.currency, name): getattr(row, f"{name}_cents") for row in whole for name in KINDS}
            assert _without_zeros(sums) == _without_zeros(wanted)

    @invariant()
    def closed_rows_stay(self) -> None:
        """What was reported of a closed day is reported for ever, unchanged."""
        assert [row for row in self.closed if row not in set(self.rows_of_closed_days())] == []

    @invariant()
    def the_books_are_sound(self) -> None:
        if is_sqlite(self.url):  # Where no time was changed past the ledger.
            assert self.ledger.verify().findings == ()


def _without_zeros(sums: Mapping[T, int]) -> dict[T, int]:
    return {key: total for key, total in sums.items() if total}


class _SqliteMachine(InFile, _Machine):
    def made_url(self) -> str:
        return self.fresh_url()


_FOR_LONG = pytest.param(200, 60, marks=[pytest.mark.torture, pytest.mark.timeout(3_600)])


@pytest.mark.parametrize(("histories", "steps"), [(3, 25), _FOR_LONG])
def test_on_sqlite(histories: int, steps: int) -> None:
    """Months of calls, closes and prunes."""
    run_machine(_SqliteMachine, histories, steps)


@pytest.mark.outside
@pytest.mark.parametrize(("histories", "steps"), [(1, 12), pytest.param(20, 40, marks=pytest.mark.torture)])
def test_on_postgresql(postgres: PostgresServer, postgres_tables: str, histories: int, steps: int) -> None:
    """The same; the server's clock is shifted past the ledger."""
    urls: list[str] = []

    class _PostgresMachine(_Machine):
        def made_url(self) -> str:
            urls.append(postgres.create_database(template=postgres_tables))
            return urls[-1]

        def teardown(self) -> None:
            super().teardown()
            postgres.drop_database(urls.pop())

    run_machine(_PostgresMachine, histories, steps)
