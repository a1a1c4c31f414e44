"""The scenarios of flows: right wallets pass, a wrong one's fault is named, and no answer breaks the certifier."""

import re
from collections.abc import Iterable
from decimal import Decimal
from time import monotonic
from typing import Any

import pytest
from wallet_by_hand import SUCCESS, Case, PlainWallet

from game_operator_testkit.certifier import Weight
from testkit.tests.certifier.harness import certified, certified_by, delivered_to, found, only, opened, skipped
from testkit.tests.certifier.test_sound_wallets import LimitsWagers
from testkit.tests.certifier.wrong_wallets import answers, flows

pytestmark = pytest.mark.slow

LOST = Weight.MONEY_LOST


def test_a_blocked_player_is_unblocked_whatever_was_found() -> None:
    """A scenario that fails leaves a player who can bet."""
    assert found(certified(flows.BlockedAreNotPaid, only=["A09", "B01"])).keys() == {"A09"}


class RefusesEarlyDepositsInBatchesForGood(PlainWallet):
    """The withdraw of a deposit in a batch may be on the way, and yet it is never sent again."""

    def _answer_item(self, item: object) -> str | None:
        answer = super()._answer_item(item)
        return answer and answer.replace("BET_NOT_FOUND", "INVALID_REQUEST")


class PaysEveryItem(PlainWallet):
    """Answers all of a batch SUCCESS."""

    def _answer_item(self, item: object) -> str | None:
        answer = super()._answer_item(item)
        return answer and answer.replace('"type":"ERROR","code":"BET_NOT_FOUND"', '"type":"SUCCESS"')


class AnswersTheRefusedAlone(PlainWallet):
    """Leaves out of its answer what went well."""

    def _answer_item(self, item: object) -> str | None:
        answer = super()._answer_item(item)
        return answer if answer and "ERROR" in answer else None


class AnswersAnObject(PlainWallet):
    """Wraps the answers to a batch."""

    def _answer_batch(self, document: object) -> str:
        return f'{{"bets":{super()._answer_batch(document)}}}'


class RefusesBatches(PlainWallet):
    """Serves no batches."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # Any: those of every wallet.
        super().__init__(*arguments, **settings | {"batches": False})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        pytest.param(RefusesEarlyDepositsInBatchesForGood, "never sends it again", id="refused for good"),
        pytest.param(PaysEveryItem, "A11-bet-2: returned SUCCESS instead of BET_NOT_FOUND", id="SUCCESS for all"),
        pytest.param(AnswersTheRefusedAlone, "one that can be carried out is not answered", id="left out"),
        pytest.param(AnswersAnObject, "answered HTTP 200, and no array of replies", id="no array"),
        pytest.param(RefusesBatches, "answered HTTP 404, and the profile says", id="not served"),
    ],
)
def test_a_batch_is_answered_item_by_item(wrong: type[PlainWallet], told: str) -> None:
    """Each by its tx_id, and as if it had come alone (docs/decisions/0010)."""
    verdict = only(certified(wrong, only=["A11"]))
    assert verdict.weight is LOST
    assert told in verdict.reason


class Limits(LimitsWagers):
    """Sound: asks for its limit before the funds."""

    most = 50_000


def test_a_wallet_may_limit_wagers() -> None:
    """What would need the whole balance in one bet is skipped, or left out; nothing is found, not even advice."""
    report = certified(Limits, only=["A", "B"])
    assert found(report) == {}
    assert skipped(report) == {
        "A06": "the wallet limits wagers: a withdraw of all was refused with LIMIT_EXCEEDED",
    }


@pytest.mark.parametrize(
    ("opening_cents", "told"),
    [
        pytest.param(100_000, "500 cents moved the balance by 500.00", id="units read"),
        pytest.param(10_000, "was refused for want of money", id="units read, and too little money"),
    ],
)
def test_cents_and_units_are_told_apart(opening_cents: int, told: str) -> None:
    """The mistake of the first days is told by its name, and stands for whatever else fails by it (spec §2.1)."""
    wallet = opened(answers.ReadsCentsAsUnits, cents=opening_cents)
    report = certified_by(delivered_to(wallet), only="A02,A03,B01,C02")
    wallet.close()
    first = report.causes[0]
    assert (first.verdict.id, first.title) == ("A02", "cents and currency units are mixed up")
    assert told in first.verdict.reason
    assert {each.id for each in report.failures} == {*first.ids}
    assert report.calls < 30
    assert [each.difference_cents for each in report.moved] == [0, 0]


class TakesTwoAlikeForADoubleClick(PlainWallet):
    """Debits one of two bets that a player places at once, if their wagers are the same."""

    placed: tuple[str, int, float] = ("", 0, 0.0)

    def _place(self, case: Case) -> str:
        before, now = self.placed, monotonic()
        self.placed = case.call.player_id, case.call.cents, now
        is_alike = before[:2] == self.placed[:2] and now - before[2] < 1
        return SUCCESS if is_alike else super()._place(case)


def test_a_bet_that_looks_like_the_one_before_is_named() -> None:
    """Its wager is not taken, and that of the same bet alone would be (spec §4.1)."""
    verdict = certified(TakesTwoAlikeForADoubleClick, only=["A", "H"]).verdict("A02")
    assert verdict.weight is Weight.MONEY_LOST
    told = (
        r"5\.00 too much.* Another bet, of the same amount and \d+ ms before, was debited: are the two taken for one\?"
    )
    assert re.search(told, verdict.reason)


class WritesExponents(PlainWallet):
    """Exact, and a JSON number, but not as amounts are written: 1.00E+3."""

    def _render_balance(self, cents: int) -> str:
        return f"{Decimal(super()._render_balance(cents)):E}"


class AnswersText(PlainWallet):
    """Calls its JSON text."""

    def handle(
        self, method: str, path: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        status, sent, answer = super().handle(method, path, headers, body)
        return status, sent | {"Content-Type": "text/html; charset=utf-8"}, answer


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        pytest.param(WritesExponents, "the balance is written with an exponent", id="1e2"),
        pytest.param(AnswersText, "instead of application/json", id="content type"),
    ],
)
def test_a_reply_of_unusual_shape_is_advice(kind: type[PlainWallet], told: str) -> None:
    """It can be read, so no money is at risk here (spec §2.1)."""
    report = certified(kind, only=["A02", "A12"])
    assert report.passed
    (advice,) = report.advice
    assert told in advice.reason
