"""Wallets that are sound in their own way pass: with limits, with games that must exist, slow, failing by chance."""

from collections.abc import Callable
from typing import Any

import pytest
from wallet_by_hand import Call, Case, InvalidRequestError, PlainWallet, Reply

from game_operator.profile import Profile
from game_operator_testkit.certifier import Report, Supplies
from game_operator_testkit.certifier.engine.observed import Observed
from game_operator_testkit.certifier.report.verdicts import KnownCause
from game_operator_testkit.provider.in_process import InProcessCarrier
from testkit.tests.certifier import harness
from testkit.tests.certifier.first_causes import hold_first_cause
from testkit.tests.certifier.harness import certified_by, delivered_to, opened
from tests.support.seeds import random_of

pytestmark = pytest.mark.slow


def certified(kind: type[PlainWallet], **settings: Any) -> Report:  # Any: those of ``certify_in_process``.
    """Certify a wallet of *kind*, of which nothing is known but its players."""
    known: dict[str, Any] = {"profile": Profile(), "supplies": Supplies(random_operations=100)}
    report = harness.certified(kind, **known | settings)
    hold_first_cause(kind.__name__, report)
    return report


def hold_passed(report: Report, *not_tried: str) -> None:
    """Hold that nothing failed, and that only what needs more than a wallet, and *not_tried*, was skipped."""
    assert {each.id: each.reason for each in report.failures} == {}
    assert report.passed
    skipped = {each.id for each in report.skipped if not each.missing}
    assert skipped == set(not_tried)
    assert [each.difference_cents for each in report.moved] == [0, 0]


class LimitsWagers(PlainWallet):
    """Takes wagers from *least* to *most* cents."""

    least, most, word = 1, 100, "LIMIT_EXCEEDED"

    def _refusal(self, case: Case) -> str | None:
        within = self.least <= case.call.cents <= self.most
        return super()._refusal(case) if within else self.word


class LimitsWagersInItsOwnWord(LimitsWagers):
    """Its code is none of the assumed ones (docs/decisions/0013)."""

    word = "MAX_STAKE"


class LimitsLargeWagers(LimitsWagers):
    """Takes a usual wager, and none that is more than a few of them: balances are put back in pieces."""

    most = 2_000


class TakesHighWagersAlone(LimitsWagers):
    """A table for high rollers."""

    least, most = 1_000, 10_000


@pytest.mark.parametrize(
    ("kind", "not_tried"),
    [
        pytest.param(LimitsWagers, ("A06", "D01", "D10", "G01", "G02", "G03"), id="at most 1.00"),
        pytest.param(
            LimitsWagersInItsOwnWord, ("A06", "D01", "D10", "G01", "G02", "G03"), id="at most 1.00, by its own code"
        ),
        pytest.param(LimitsLargeWagers, ("A06", "D01", "D10", "G01", "G03"), id="at most 20.00"),
        pytest.param(TakesHighWagersAlone, ("A06", "D10", "F13", "G01", "G02", "G03"), id="at least 10.00"),
    ],
)
@pytest.mark.drawn(1)
def test_a_wallet_that_limits_wagers_passes(kind: type[LimitsWagers], not_tried: tuple[str, ...]) -> None:
    """A wager that it takes is found; only what asks for a whole balance or for single cents is skipped."""
    report = certified(kind)
    hold_passed(report, *not_tried)
    assert f"was refused with {kind.word}" in report.verdict("A06").reason


class KnowsItsGames(PlainWallet):
    """Refuses a withdraw or claim of a game that it does not have."""

    needs_one = True

    def _read(self, operation: str, document: object, body: bytes) -> Call:
        call = super()._read(operation, document, body)
        game = self._first(document, "game") if isinstance(document, dict) else ...
        is_known = game == "aviator" or (game is ... and not self.needs_one)
        if (operation == "withdraw" or call.is_claim) and not is_known:
            raise InvalidRequestError("an unknown game")
        return call


class KnowsItsGamesIfNamed(KnowsItsGames):
    """And takes a call that names none."""

    needs_one = False


def test_a_wallet_that_knows_its_games_passes_with_one_of_them() -> None:
    """Every call names it: this wallet refuses what names none."""
    hold_passed(certified(KnowsItsGames, game="aviator"))


@pytest.mark.parametrize("kind", [KnowsItsGames, KnowsItsGamesIfNamed])
def test_a_wallet_that_knows_its_games_is_told_of_the_option(kind: type[PlainWallet]) -> None:
    """Without a game, the first screen says which option to pass, and no money is called lost."""
    report = certified(kind, only=["A"])
    first = report.causes[0]
    assert "--game" in first.fix
    assert report.money_at_risk == ()
    if kind is KnowsItsGamesIfNamed:
        assert "because of its member game" in first.verdict.reason


class FailsByChance(PlainWallet):
    """Of a hundred calls two fail, before anything is done."""

    _chance = random_of(16)

    def _carry_out(self, call: Call) -> Reply:
        if self._chance.random() < 0.02:
            raise ConnectionError("a deadlock was detected")
        return super()._carry_out(call)


def test_a_wallet_that_fails_by_chance_passes() -> None:
    """Each call is repeated before it is judged; how many failed is advice (docs/decisions/0013)."""
    report = certified(FailsByChance)
    hold_passed(report)
    assert "calls returned SYSTEM_ERROR" in report.verdict("H07").reason
    # Calls at once are not repeated one by one, so there it shows.
    assert {each.id for each in report.advice if each.group not in "DH"} <= {"A08"}


class FailsAtWhatItCannotRead(PlainWallet):
    """Turns every error into SYSTEM_ERROR, its own for an unreadable body too."""

    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        try:
            return super()._answer(path, headers, body)
        except InvalidRequestError:
            return self._refuse("SYSTEM_ERROR")


def test_a_wallet_that_fails_at_what_it_cannot_read_is_advised() -> None:
    """No money moves, and one piece of advice says where to look, in place of one for each body."""
    report = certified(FailsAtWhatItCannotRead)
    hold_passed(report)
    assert "Catch your own error before the general one" in report.causes[0].fix
    assert {each.id for each in report.advice} <= set(report.causes[0].ids)


class HasANarrowColumn(PlainWallet):
    """Keeps wagers in a column of nine digits."""

    def _withdraw(self, case: Case) -> str:
        if case.call.cents >= 10**9:
            raise OverflowError("numeric field overflow")
        return super()._withdraw(case)


def test_a_column_that_is_too_narrow_is_measured() -> None:
    """Nobody in the run has so much money: it is advice, which says what fits and what does not."""
    report = certified(HasANarrowColumn)
    hold_passed(report, "G03")
    assert "as are all from 10,000,000.00 on; one of 1,000,000.00 is not" in report.verdict("F05").reason
    assert report.causes[0].ids == ("F05",)


@pytest.mark.parametrize(
    ("usual_ms", "most_rounds"),
    [
        pytest.param(600.0, 720, id="slow"),
        pytest.param(5.0, 2_400, id="quick", marks=pytest.mark.torture),  # As the right wallet of other tests.
    ],
)
def test_a_slow_wallet_is_sent_fewer_calls(usual_ms: float, most_rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 600 ms an answer, all is judged within the ten minutes that a run has: 720 calls one after the other."""
    rounds: list[int] = []
    carry: Callable[..., Any] = InProcessCarrier.carry

    def counted(carrier: InProcessCarrier, requests: Any) -> Any:
        rounds.append(len(requests))
        return carry(carrier, requests)

    monkeypatch.setattr(InProcessCarrier, "carry", counted)
    monkeypatch.setattr(Observed, "usual_ms", property(lambda _: usual_ms))
    hold_passed(certified(PlainWallet, supplies=Supplies()))
    assert len(rounds) < most_rounds
    assert (len(rounds) > 1_500) is (usual_ms < 100)


@pytest.mark.parametrize(
    "only",
    [
        pytest.param(["A", "B", "F", "H"], id="some"),
        pytest.param([], id="all", marks=pytest.mark.torture),
    ],
)
def test_a_wallet_is_certified_twice(only: list[str]) -> None:
    """A second run has ids of its own, finds what the first one left, and passes too; balances are as before."""
    wallet = opened(batches=False)
    for _ in range(2):
        hold_passed(certified_by(delivered_to(wallet), only=only, run_id=None))
    wallet.close()


def test_causes_have_words() -> None:
    """Each cause is one of mistakes.toml."""
    from game_operator_testkit.certifier.report.verdicts import mistake_of

    assert [each for each in KnownCause if mistake_of(each) is None] == []
