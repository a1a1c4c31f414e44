"""
The certifier certified: right wallets pass, and each wrong one fails where its mistake belongs, and nowhere else.

The wrong ones are made of the wallet by hand, which shares no code with this package. The site lists them:
testkit.tests.support.wrong_wallet_table.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from game_operator_testkit.certifier import Report, Weight, scenarios
from testkit.tests.certifier.first_causes import hold_first_cause, names_a_mistake
from testkit.tests.certifier.harness import certified, found
from testkit.tests.certifier.wrong_wallets.registry import RANDOM_OPERATIONS, WrongWallet
from testkit.tests.support.wrong_wallet_table import WRONG_WALLETS
from tests.support.seeds import random_of

#: What cannot be tried in process, or with nothing that anybody could supply.
UNTRIED = {"E10", "F10"}
#: Quick scenarios, one of each kind, that most wrong wallets pass.
_A_FEW = ("A01", "B01", "C02", "E01", "G02")
_FIRST_OF = {each.must: each for each in reversed(WRONG_WALLETS.values())}
_ONE_OF_EACH_FAST = [
    pytest.param(each, marks=[] if _FIRST_OF[each.must] is each else [pytest.mark.slow], id=each.name)
    for each in WRONG_WALLETS.values()
]


def _certified(wrong: WrongWallet, folder: Path, only: Iterable[str] = ()) -> Report:
    file = folder / f"{wrong.name}.db" if wrong.on_file else None
    return certified(wrong.kind, file=file, operations=wrong.operations, only=only)


def hold_caught(wrong: WrongWallet, folder: Path, *, everywhere: bool) -> None:
    """
    Hold that *wrong* fails where it must, perhaps where it may, and nowhere else; nothing may stumble over it.

    What is to be fixed first is the mistake that it makes. With *everywhere* all scenarios are played, and otherwise
    those that must and may fail and a few others.
    """
    may = () if wrong.may_anything else wrong.may
    only = () if everywhere else {wrong.must, *may, *_A_FEW, *(["G04"] if wrong.operations > RANDOM_OPERATIONS else [])}
    report = _certified(wrong, folder, only)
    failed = {each.id: each.reason for each in report.failures}
    assert wrong.must in failed
    assert {each: failed[each] for each in failed if each != wrong.must and each not in wrong.may} == {}
    assert not report.passed
    assert all("stumbled" not in each.reason for each in report.verdicts)
    if everywhere and not names_a_mistake(wrong.name):
        assert report.causes[0].verdict.id in {wrong.must, *wrong.may}
    else:
        hold_first_cause(wrong.name, report, at_any_cost=everywhere)


@pytest.mark.slow
def test_the_right_wallet_passes() -> None:
    """With all supplied, nothing fails, not even by advice, and only what needs a network is skipped."""
    report = certified()
    assert found(report) == {}
    assert report.passed
    assert report.calls > 1_500
    assert {each.id for each in report.skipped} <= UNTRIED
    assert [each.difference_cents for each in report.moved] == [0, 0]


@pytest.mark.parametrize("wrong", _ONE_OF_EACH_FAST)
def test_its_scenario_catches_a_wrong_wallet(wrong: WrongWallet, tmp_path: Path) -> None:
    """Alone, or after random play if it forgets; in the fast lane one wallet of each. A race has ten tries."""
    only = {wrong.must} | ({"G04"} if wrong.operations > RANDOM_OPERATIONS else set())
    for _ in range(10):
        verdict = _certified(wrong, tmp_path, only).verdict(wrong.must)
        if verdict.failed:
            return
    pytest.fail(verdict.reason)


@pytest.mark.parametrize("name", ["KeepsFractions", "OneBalanceForAll"])
def test_what_spoils_a_balance_is_told(name: str, tmp_path: Path) -> None:
    """In every lane: no other test looks at who spoils an account, or whose calls move another's money."""
    hold_caught(WRONG_WALLETS[name], tmp_path, everywhere=False)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG_WALLETS.values(), ids=str)
@pytest.mark.drawn(15)
def test_a_wrong_wallet_fails(wrong: WrongWallet, tmp_path: Path) -> None:
    """Where it must; what else may fail is played too, and a few others."""
    hold_caught(wrong, tmp_path, everywhere=False)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(3))
@pytest.mark.drawn(2)
def test_a_wrong_wallet_drawn_by_the_seed_fails_nowhere_else(place: int, tmp_path: Path) -> None:
    """All scenarios, for three of them."""
    hold_caught(random_of(13).sample(list(WRONG_WALLETS.values()), 3)[place], tmp_path, everywhere=True)


@pytest.mark.torture
@pytest.mark.parametrize("wrong", WRONG_WALLETS.values(), ids=str)
def test_a_wrong_wallet_fails_nowhere_else(wrong: WrongWallet, tmp_path: Path) -> None:
    """All scenarios, for all of them."""
    hold_caught(wrong, tmp_path, everywhere=True)


@pytest.mark.torture
@pytest.mark.parametrize("scenario", [each.id for each in scenarios()])
def test_a_scenario_fails_only_the_wallets_that_name_it(scenario: str, tmp_path: Path) -> None:
    """A new scenario is tried against all of them in seconds: ``pytest -m torture -k F12`` with its id."""
    failed = {each.name for each in WRONG_WALLETS.values() if _certified(each, tmp_path, [scenario]).failures}
    naming = {wrong.name for wrong in WRONG_WALLETS.values() if scenario in {wrong.must, *wrong.may}}
    assert failed <= naming


def test_every_scenario_has_a_wrong_wallet() -> None:
    """No scenario of weight other than advice is there that nothing can fail."""
    caught = {wrong.must for wrong in WRONG_WALLETS.values()}
    weighty = {each.id for each in scenarios() if each.weight is not Weight.ADVICE}
    assert sorted(weighty - caught - UNTRIED) == []


def test_what_may_fail_can_fail() -> None:
    """Only scenarios that exist are named."""
    ids = {each.id for each in scenarios()}
    assert {each.name: each.may - ids for each in WRONG_WALLETS.values() if not each.may <= ids} == {}
