"""Faults by name: what can be asked for, which call they strike, and switches that any thread may turn."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from game_operator import ConfigurationError
from game_operator_testkit.provider.faults import (
    API_FAULTS,
    DEFAULT_RATE,
    FAULT_PRESETS,
    FAULTS,
    LASTING_FAULTS,
    NO_FAULTS,
    Fault,
    FaultPlan,
    FaultPreset,
    FaultSwitches,
)

OF_WEBHOOKS = tuple(fault for fault in Fault if fault not in API_FAULTS)


def test_every_fault_is_described_once() -> None:
    """Who switches a fault on is told what it does, and on which side."""
    assert [info.name for info in FAULTS] == list(Fault)
    assert {info.name for info in FAULTS if info.side == "api"} == set(API_FAULTS)
    assert [info.name for info in FAULTS if info.is_lasting] == list(LASTING_FAULTS)
    assert LASTING_FAULTS == ("settlement-lost", "settlement-held")
    assert all(info.title and info.text.endswith(".") for info in FAULTS)
    assert len({info.text for info in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        pytest.param("none", FaultPlan(), id="none"),
        pytest.param(
            "all",
            FaultPlan({fault: DEFAULT_RATE for fault in OF_WEBHOOKS if fault not in LASTING_FAULTS}),
            id="all of those that strike webhooks and leave equal books",
        ),
        pytest.param(
            "settlement-lost=0.05,settlement-held@2",
            FaultPlan({Fault.SETTLEMENT_LOST: 0.05}, {Fault.SETTLEMENT_HELD: 2}),
            id="lasting ones by name",
        ),
        pytest.param("reset", FaultPlan({Fault.RESET: 0.03}), id="a name alone is 3 %"),
        pytest.param("reset=0.5", FaultPlan({Fault.RESET: 0.5}), id="a rate"),
        pytest.param("reset=1", FaultPlan({Fault.RESET: 1.0}), id="the highest rate"),
        pytest.param("reset=5%", FaultPlan({Fault.RESET: 0.05}), id="percent"),
        pytest.param("reset@3", FaultPlan({}, {Fault.RESET: 3}), id="the third call"),
        pytest.param(
            "reply-lost=0.05, forged=1%,api-429@2",
            FaultPlan({Fault.REPLY_LOST: 0.05, Fault.FORGED: 0.01}, {Fault.API_429: 2}),
            id="several",
        ),
    ],
)
def test_what_can_be_asked_for(text: str, plan: FaultPlan) -> None:
    """Rates, percentages and numbers of calls are read as they are written."""
    assert FaultPlan.parse(text) == plan


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "'' cannot be read. Pass all or none alone, or faults with commas", id="nothing"),
        pytest.param("thunder", "no fault 'thunder'", id="an unknown name"),
        pytest.param("Reset", "no fault 'Reset'. Pass some of request-lost, reply-lost,", id="another case"),
        pytest.param("reset=1.01", "or from 0% to 100%, not 1.01.", id="above 1"),
        pytest.param("reset=101%", "to 100%, not 1.01.", id="above 100 %"),
        pytest.param("reset=-0.1", "'reset=-0.1' cannot be read. Pass reset, reset=0.05", id="below 0"),
        pytest.param("reset@0", "must be 1 or more, not 0", id="calls count from 1"),
        pytest.param("reset=0.1@2", "cannot be read", id="a rate and a number"),
        pytest.param(
            "all,reset", "'all,reset' cannot be read. Pass all or none alone, or faults with commas", id="all and more"
        ),
    ],
)
def test_what_cannot_be_asked_for(text: str, told: str) -> None:
    """The message says which value is wrong, and what to pass."""
    with pytest.raises(ConfigurationError, match=r"Pass|must be 1 or more|must be from 0 to 1") as refused:
        FaultPlan.parse(text)
    assert told in str(refused.value)
    assert len(str(refused.value)) < 1_000


@given(
    rates=st.dictionaries(st.sampled_from(Fault), st.floats(0, 1)),
    nth=st.dictionaries(st.sampled_from(Fault), st.integers(1, 999_999_999)),
)
@settings(max_examples=100, deadline=None)
def test_a_plan_is_read_as_it_is_written(rates: dict[Fault, float], nth: dict[Fault, int]) -> None:
    """A trace names its faults by their text: no rate is too small for that."""
    plan = FaultPlan(rates, nth)
    assert FaultPlan.parse(str(plan)) == plan
    assert bool(plan) == (any(rates.values()) or bool(nth))


@pytest.mark.parametrize(
    ("rate", "least", "most"), [(0.0, 0, 0), (0.1, 150, 250), (0.5, 900, 1_100), (1.0, 2_000, 2_000)]
)
def test_a_fault_strikes_as_often_as_its_rate_says(rate: float, least: int, most: int) -> None:
    """At 0 never, at 1 always, and between in proportion."""
    plan = FaultPlan({Fault.RESET: rate})
    assert least <= sum(bool(plan.struck(f"call {number}", OF_WEBHOOKS)) for number in range(2_000)) <= most


def test_which_call_is_struck_follows_from_its_draw_alone() -> None:
    """The same draw strikes the same; another fault switched on moves nothing."""
    draws = [f"7:b{number}:withdraw:BET" for number in range(500)]
    alone, more = FaultPlan({Fault.RESET: 0.2}), FaultPlan(dict.fromkeys(Fault, 0.2))
    struck = [alone.struck(draw, OF_WEBHOOKS) for draw in draws]
    assert struck == [alone.struck(draw, OF_WEBHOOKS) for draw in draws]
    assert [Fault.RESET in each for each in struck] == [Fault.RESET in more.struck(draw, OF_WEBHOOKS) for draw in draws]
    assert struck != [alone.struck(f"8{draw[1:]}", OF_WEBHOOKS) for draw in draws]


def test_switches_are_turned_on_and_off() -> None:
    """Each has a rate; 0 is off, and both sides of the limits are kept to."""
    switches = FaultSwitches()
    assert switches.plan == NO_FAULTS
    switches.set("reset", 1)
    switches.set("api-500", 0.25)
    assert switches.plan.rates == {Fault.RESET: 1, Fault.API_500: 0.25}
    switches.set("reset", 0)
    assert str(switches.plan) == "api-500=0.25"
    for rate in (-0.01, 1.01, float("nan"), float("inf")):
        with pytest.raises(ConfigurationError, match="from 0 to 1"):
            switches.set("reset", rate)
    with pytest.raises(ConfigurationError, match="no fault 'thunder'"):
        switches.set("thunder", 0.1)
    switches.clear()
    assert not switches.plan


def test_a_switch_for_the_nth_call() -> None:
    """It waits, counts down the calls of its own side, and is gone once it has occurred."""
    switches = FaultSwitches()
    switches.set_nth("reset", 3)
    switches.set_nth("api-500", 2)
    assert switches.strike_webhook([Fault.RESET, Fault.SLOW]) == ()
    assert switches.plan.nth == {Fault.RESET: 2, Fault.API_500: 2}
    assert switches.strike_api("draw") is None
    assert switches.plan.nth == {Fault.RESET: 2, Fault.API_500: 1}
    assert [switches.strike_webhook([Fault.SLOW]) for _ in range(3)] == [()] * 3
    assert switches.plan.nth == {Fault.RESET: 1, Fault.API_500: 1}, "a call of another kind leaves it for the next"
    assert switches.strike_webhook([Fault.SLOW, Fault.RESET]) == (Fault.RESET,)
    assert switches.plan.nth == {Fault.API_500: 1}
    assert [switches.strike_api("draw") for _ in range(2)] == [Fault.API_500, None]
    assert switches.plan.nth == {}
    switches.set_nth("api-500", 7)
    switches.set_nth("api-500", 0)
    assert switches.plan.nth == {}
    with pytest.raises(ConfigurationError, match="must be 1 or more"):
        switches.set_nth("reset", -1)
    with pytest.raises(ConfigurationError, match="no fault"):
        switches.set_nth("thunder", 1)


def test_of_many_calls_to_the_wallet_at_once_one_is_struck() -> None:
    """From any thread: of two rounds at once, a fault that waits occurs in one."""
    for _ in range(20):
        switches = FaultSwitches()
        switches.set_nth("reset", 1)
        with ThreadPoolExecutor(8) as threads:
            struck = list(threads.map(switches.strike_webhook, [[Fault.RESET]] * 8))
        assert Counter(struck) == {(Fault.RESET,): 1, (): 7}


@pytest.mark.parametrize("preset", FAULT_PRESETS.values(), ids=list(FAULT_PRESETS))
def test_a_preset_is_asked_for_by_its_name(preset: FaultPreset) -> None:
    """The plan has its faults and knows its name; changed, or with another fault, it is the preset no longer."""
    plan = FaultPlan.parse(preset.name)
    assert plan.rates == preset.rates
    assert plan.preset is preset
    assert FaultPlan.parse(str(plan)).preset is preset
    assert set(preset.rates).isdisjoint(LASTING_FAULTS)
    for more in ("slow=1%", "reset@2", "forged=50%"):
        changed = FaultPlan.parse(f"{preset.name},{more}")
        assert changed.rates.keys() >= preset.rates.keys()
        assert changed.preset is None
