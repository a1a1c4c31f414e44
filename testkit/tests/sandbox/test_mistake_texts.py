"""The words for the mistakes of wallets with money, which the certifier's scenarios use."""

import pytest

from game_operator_testkit.certifier import scenarios
from game_operator_testkit.provider.diagnosis import MoneyMistake, text_of


@pytest.mark.parametrize("mistake", MoneyMistake)
def test_each_mistake_has_words(mistake: MoneyMistake) -> None:
    """And what is at risk by it, if anything is."""
    text = text_of(mistake)
    assert all((text.title, text.means, text.fix))
    assert text.risk in {"", "money lost", "money doubled"}


def test_another_mistake_has_none() -> None:
    """A name that is not in the file."""
    with pytest.raises(KeyError):
        text_of("another")


@pytest.mark.parametrize(
    ("scenario_id", "mistake"),
    [
        ("B01", MoneyMistake.DEBITED_AGAIN),
        ("B02", MoneyMistake.CREDITED_AGAIN),
        ("C01", MoneyMistake.REFUNDED_UNSEEN),
        ("C02", MoneyMistake.LATE_WITHDRAW),
    ],
)
def test_scenarios_about_a_mistake_use_its_words(scenario_id: str, mistake: MoneyMistake) -> None:
    """What it means, and how to fix it."""
    (scenario,) = [each for each in scenarios() if each.id == scenario_id]
    text = text_of(mistake)
    assert (scenario.means, scenario.fix) == (text.means, text.fix)
