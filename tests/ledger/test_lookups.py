"""Look-ups by index find what reading whole tables would: histories, bets by state and player, anomalies by parts."""

import random
from decimal import Decimal
from typing import Any

import pytest

from game_operator.codes import BetState
from game_operator.ledger import MemoryLedger, SqlLedger
from game_operator.ledger.staff.anomalies import AnomalyRecord
from game_operator.ledger.staff.queries import Movement
from tests.support.calls import deposit, rollback, withdraw
from tests.support.raw_sql import run

pytestmark = [pytest.mark.outside, pytest.mark.drawn(8, url=("postgres",))]


def latest(ledger: SqlLedger, most: int = 1_000) -> list[Movement]:
    """Return the latest movements of p1, the newest first."""
    movements = ledger.account_history("p1", most=most).movements
    assert [move.at_millis for move in movements] == sorted(move.at_millis for move in movements)
    return [*reversed(movements)]


def played(ledger: SqlLedger | MemoryLedger) -> None:
    """Leave bets in all states, of two players and two sources."""
    for player in ("p1", "p2"):
        ledger.open_account(player, Decimal(100))
        for call in (
            withdraw(f"open-{player}", player),
            withdraw(f"closed-{player}", player),
            deposit(f"closed-{player}", player),
            withdraw(f"back-{player}", player),
            rollback(f"back-{player}", player, tx_id=f"withdraw:bet:back-{player}"),
            withdraw(f"spent-{player}", player, action="RAIN"),
            withdraw(f"declined-{player}", player, 99_999),
            rollback(f"tombstone-{player}", player, tx_id=f"withdraw:bet:tombstone-{player}"),
        ):
            ledger.apply(call)


@pytest.mark.parametrize("kind", ["sql", "memory"])
def test_bets_by_state_player_and_time(url: str, kind: str) -> None:
    """Each combination finds what a look at all bets finds, in the same order."""
    with SqlLedger(url) if kind == "sql" else MemoryLedger() as ledger:
        played(ledger)
        every = list(ledger.bets())
        assert len(every) == 12
        assert {bet.state for bet in every} == set(BetState)
        middle = every[6].opened_at_millis
        for state in (None, *BetState):
            for player in (None, "p1", "nobody"):
                for since, until in ((None, None), (middle, None), (None, middle), (middle, middle)):
                    wanted = [
                        bet
                        for bet in every
                        if state in (None, bet.state)
                        and player in (None, bet.player_id)
                        and (since or 0) <= bet.opened_at_millis < (until or 2**62)
                    ]
                    found = ledger.bets(state=state, player_id=player, since_millis=since, until_millis=until)
                    assert list(found) == wanted
        assert list(ledger.bets(source="t", state=BetState.OPEN)) == []


_ROWS = (
    "INSERT INTO {p}anomalies (source, kind, code, operation, tx_id, bet_id, player_id, body, digest, first_at_millis, "
    "last_at_millis, seen, resolved_at_millis) VALUES "
)
_VALUES = "(?, ?, NULL, 'deposit', ?, ?, ?, ?, ?, CAST(? AS bigint), CAST(? AS bigint), ?, CAST(? AS bigint))"


def test_anomalies_by_all_filters(url: str) -> None:
    """Each combination finds what a look at all anomalies finds, once and in the order in which they came."""
    draw = random.Random(1)
    values: list[object] = []
    for number in range(150):
        first = draw.randrange(50)
        last = first + draw.choice([0, 0, draw.randrange(50)])
        names = (f"b{draw.randrange(30)}", f"b{draw.randrange(30)}\U0010ffff", f"p{draw.randrange(3)}")
        tx_id, bet_id, player = draw.choice([names, names, (None, None, None), (names[0], None, names[2])])
        body = b'{"player":"p1","bet":"b1"}' if draw.random() < 0.5 else b"{}"
        kind, resolved = draw.choice("xyz"), draw.choice([None, 7])
        values += draw.choice("st"), kind, tx_id, bet_id, player, body, b"%d" % number, first, last, 2, resolved
    with SqlLedger(url) as ledger:
        run(url, f"{_ROWS}{', '.join([_VALUES] * 150)}", *values)
        every = list(ledger.anomalies(resolved=None))
        assert [(each.first_at_millis, each.id) for each in every] == sorted(
            (each.first_at_millis, each.id) for each in every
        )
        assert len(every) == 150
        for _ in range(60):
            wanted: dict[str, Any] = {
                "source": draw.choice([None, "s"]),
                "resolved": draw.choice([None, True, False]),
                "since_millis": draw.choice([0, 0, 30]),
                "until_millis": draw.choice([None, 40]),
                "kind": draw.choice([None, "x", ("x", "y", "x"), ()]),
                "player_id": draw.choice([None, "p1"]),
                "id_prefix": draw.choice([None, "b1", "b1\U0010ffff", "b"]),
            }
            found = list(ledger.anomalies(**wanted))
            assert found == [each for each in every if _is_wanted(each, **wanted)], wanted


def _is_wanted(each: AnomalyRecord, **wanted: Any) -> bool:
    is_nameless = each.player_id is None
    in_body, id_prefix = b"p1" in each.body, wanted["id_prefix"]
    ids = [name for name in (each.bet_id, each.tx_id) if name is not None]
    return (
        wanted["source"] in (None, each.source)
        and wanted["resolved"] in (None, each.resolved_at_millis is not None)
        and each.last_at_millis >= wanted["since_millis"]
        and each.first_at_millis < (wanted["until_millis"] or 1_000)
        and (wanted["kind"] is None or each.kind in wanted["kind"])
        and (wanted["player_id"] is None or (in_body if is_nameless else each.player_id == wanted["player_id"]))
        and (
            not id_prefix
            or (in_body and "\U0010ffff" not in id_prefix if is_nameless else any(n.startswith(id_prefix) for n in ids))
        )
    )
