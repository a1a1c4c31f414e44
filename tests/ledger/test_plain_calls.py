"""Plain calls in SQLite: both ways write the same rows; and which calls are left to the long way."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from game_operator.ledger import Outcome, SqlLedger, Terms
from game_operator.ledger.api import DEFAULT_TERMS, MAX_BALANCE_CENTS
from game_operator.ledger.engine.script import Result, Script, apply_items
from game_operator.ledger.plain_calls import PlainCalls
from game_operator.ledger.rules.book import Item, asks_operator
from game_operator.models.webhooks import WebhookCall
from game_operator.money import amount_from_cents
from game_operator.profile import Profile
from tests.ledger_contract import random_call
from tests.support.calls import claim, deposit, withdraw
from tests.support.seeds import random_of
from tests.support.sqlite_tables import new_file

_NOON = 1_800_000_000_000


class _Twins:
    """Two files: calls go into one as ever, and into the other the long way in the order in which they were applied."""

    def __init__(self, folder: Path, players: Sequence[str]) -> None:
        self.now = _NOON
        self.paths = [folder / "plain.db", folder / "long.db"]
        for path in self.paths:
            new_file(path)
        self.plain, self.long = (SqlLedger(f"sqlite:///{path}", clock_millis=lambda: self.now) for path in self.paths)
        for ledger in (self.plain, self.long):
            for source in ("", "beside"):
                ledger.add_source(source)
            for player in players:
                ledger.open_account(player, Decimal(100))
            ledger.open_account("rich", amount_from_cents(MAX_BALANCE_CENTS))
        self.gone_by_plain: list[int] = []
        taken = self.plain._plain
        assert taken is not None
        vars(taken)["_done"] = partial(self._noted, taken)

    def _noted(self, plain: PlainCalls, items: Sequence[Item]) -> Script[dict[int, Outcome]]:
        done = yield from PlainCalls._done(plain, items)
        self.gone_by_plain = list(done)
        return done

    def apply(self, items: Sequence[Item]) -> int:
        """Apply *items* in one transaction, hold the outcomes alike, and return how many were plain."""
        self.gone_by_plain = []
        results = self.plain._apply_all(items)
        first = self.gone_by_plain
        order = [*first, *(index for index in range(len(items)) if index not in first)]
        long_way: list[Result] = self.long._write(
            lambda: apply_items([items[index] for index in order], self.long._fit)
        )
        assert [results[index] for index in order] == long_way
        return len(first)

    def rows(self) -> list[dict[str, list[Any]]]:
        """Return all rows of money of both."""
        found = []
        for path in self.paths:
            connection = sqlite3.connect(path)
            tables = ("accounts", "calls", "bets", "postings", "anomalies")
            found.append(
                {name: connection.execute(f"SELECT * FROM game_operator_{name}").fetchall() for name in tables}
            )
            connection.close()
        return found

    def close(self) -> None:
        self.plain.close()
        self.long.close()


@pytest.mark.slow
@pytest.mark.parametrize("most", [pytest.param(1, id="one at a time"), pytest.param(12, id="in batches")])
def test_both_ways_write_the_same_rows(tmp_path: Path, most: int) -> None:
    """After any history every row is the same, to the last column: times, digests, rounds and currencies too."""
    random, players = random_of(most), ("p1", "p2", "p3")
    twins = _Twins(tmp_path, players[:2])
    terms = [
        Terms(currency_of=lambda call: "EUR" if call.player_id == "p1" else None),
        Terms(rules=Profile(spent_actions=("RAIN",), withdraw_actions=("BET", "RAIN"))),
        Terms(may_bet=lambda *_: None),
        Terms(account_of=lambda call: "p2"),
        Terms(after=lambda call, outcome, connection: None),
    ]
    plain = 0
    for step in range(160):
        # Slower than calls come: movements of an account in the same millisecond, and before the latest.
        twins.now += random.choice([-2, 0, 0, 1, 5])
        items = [
            Item(_any_call(random, players, 20 + step), random.choices(terms, (20, 4, 1, 1, 1))[0])
            for _ in range(random.randint(1, most))
        ]
        if any(asks_operator(item.call, item.terms) for item in items):
            del items[1:]  # As the queue has it.
        plain += twins.apply(items)
    assert plain > 25
    mine, theirs = twins.rows()
    assert mine == theirs
    assert {row[8] for row in mine["bets"]} >= {"OPEN", "CLOSED", "ROLLED_BACK"}
    assert twins.plain.verify().sound
    twins.close()


def _any_call(random: Random, players: Sequence[str], bets: int) -> WebhookCall:
    call = random_call(random, players, bets=bets)
    if call.operation == "withdraw" and random.random() < 0.1:
        return replace(call, action="RAIN", body=b"")
    return call


_WITHDRAW, _DEPOSIT = withdraw("b2", "p1", 100), deposit("b1", "p1", 50)
_AFTER: dict[str, Any] = {"after": lambda *_: None}


@pytest.mark.parametrize(
    ("call", "terms", "is_plain"),
    [
        pytest.param(_WITHDRAW, {}, True, id="withdraw"),
        pytest.param(withdraw("b2", "p1", 9_900), {}, True, id="all there is"),
        pytest.param(withdraw("b2", "p1", 9_901), {}, False, id="more than there is"),
        pytest.param(withdraw("b2", "p1", 0), {}, False, id="withdraw of nothing"),
        pytest.param(withdraw("b1", "p1", 100), {}, False, id="known bet"),
        pytest.param(withdraw("b2", "p3", 100), {}, False, id="unknown player"),
        pytest.param(_WITHDRAW, {"may_bet": lambda *_: None}, False, id="may_bet"),
        pytest.param(_WITHDRAW, {"account_of": lambda call: call.player_id}, False, id="account_of"),
        pytest.param(_WITHDRAW, _AFTER, False, id="after"),
        pytest.param(_DEPOSIT, {}, True, id="deposit"),
        pytest.param(deposit("b1", "p1", 0), {}, True, id="loss"),
        pytest.param(_DEPOSIT, _AFTER, False, id="deposit with after"),
        pytest.param(deposit("b1", "p1", 50, won_cents=50), {}, True, id="won as paid"),
        pytest.param(deposit("b1", "p1", 50, won_cents=49), {}, False, id="won differs"),
        pytest.param(deposit("b1", "p2", 50), {}, False, id="another player's bet"),
        pytest.param(deposit("b3", "p2", 50), {}, False, id="another player's bet on this account"),
        pytest.param(deposit("b9", "p1", 50), {}, False, id="unknown bet"),
        pytest.param(withdraw("b6", "p1", 50), {}, True, id="bet of another source"),
        pytest.param(deposit("b3", "p1", 50), {}, False, id="bet on another account"),
        pytest.param(deposit("b4", "p2", 50, tx_id="d"), {}, False, id="closed bet"),
        pytest.param(deposit("b5", "rich", 100), {}, True, id="all that an account can hold"),
        pytest.param(deposit("b5", "rich", 101), {}, False, id="more than it can hold"),
        pytest.param(claim("c1", "p1", 50), {}, False, id="claim"),
    ],
)
def test_only_what_leaves_nothing_to_decide_is_plain(
    tmp_path: Path, call: WebhookCall, terms: dict[str, Any], *, is_plain: bool
) -> None:
    """Everything else goes the long way."""
    twins = _Twins(tmp_path, ("p1", "p2"))
    twins.apply(_items(withdraw("b1", "p1", 100), withdraw("b4", "p2", 100), withdraw("b5", "rich", 100)))
    twins.apply([Item(withdraw("b3", "p1", 100), Terms(account_of=lambda call: "p2"))])
    twins.apply(_items(deposit("b4", "p2", 100)))
    twins.apply([Item(withdraw("b6", "p1", 0), Terms(source="beside"))])
    assert twins.apply([Item(call, Terms(**terms))]) == is_plain
    assert twins.rows()[0] == twins.rows()[1]
    twins.close()


def test_calls_of_one_bet_in_a_batch(tmp_path: Path) -> None:
    """The first is plain, and those after it find what it has left."""
    twins = _Twins(tmp_path, ("p1", "p2"))
    both: list[WebhookCall] = [
        withdraw("b1", "p1", 100),
        withdraw("b1", "p1", 100),
        deposit("b1", "p1", 50),
        withdraw("b2", "p1", 100),
    ]
    assert twins.apply(_items(*both)) == 2
    assert twins.apply(_items(deposit("b2"), deposit("b2"), deposit("b2", "p1", 70, tx_id="d"))) == 1
    assert twins.rows()[0] == twins.rows()[1]
    twins.close()


@pytest.mark.parametrize("beside", [0, 3])
def test_a_known_identity_sends_the_batch_the_long_way(tmp_path: Path, beside: int) -> None:
    """Its constraint notices, nothing of the attempt is left, and ``decide`` refuses the one call."""
    twins = _Twins(tmp_path, ("p1", "p2"))
    twins.apply(_items(withdraw("b1", "p1", 100, tx_id="t"), withdraw("b2", "p1", 100)))
    twins.apply(_items(deposit("b1", "p1", 50, tx_id="d")))
    conflicts: list[WebhookCall] = [withdraw("b3", "p1", 100, tx_id="t"), deposit("b2", "p1", 50, tx_id="d")]
    for known in conflicts:
        others: list[WebhookCall] = [withdraw(f"{known.operation}-{number}", "p2", 100) for number in range(beside)]
        twins.apply(_items(*others, known))
        mine, theirs = twins.rows()
        assert mine == theirs
    assert [row[2:4] for row in mine["anomalies"]] == [
        (f"conflicting_{name}", "DUPLICATE_TRANSACTION") for name in ("withdraw", "deposit")
    ]
    assert (twins.plain.balance("p1"), twins.plain.balance("p2")) == (9_850, 10_000 - 200 * beside)
    twins.close()


def _items(*calls: WebhookCall) -> list[Item]:
    return [Item(call, DEFAULT_TERMS) for call in calls]
