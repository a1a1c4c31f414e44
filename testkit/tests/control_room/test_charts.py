"""The charts: well-formed, in words too, right for none, one and many, and money never through a float."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest

from game_operator_testkit.control_room.wallet import balance_chart, latencies_chart
from game_operator_testkit.provider.latency import percentile
from game_operator_testkit.sandbox.dealing.balances import ReportedBalance
from testkit.tests.sandbox.support import DAY_MILLIS, NOW_MILLIS


def reported(*balances: int | tuple[int, int], step_millis: int = 1_000) -> list[ReportedBalance]:
    """Return balances that are right, or pairs of what was reported and what it should be."""
    return [
        ReportedBalance(NOW_MILLIS + number * step_millis, *(pair if isinstance(pair, tuple) else (pair, pair)))
        for number, pair in enumerate(balances)
    ]


def parsed(chart: str) -> ElementTree.Element:
    """Return the chart, which must be well-formed; inside a page it needs no namespace."""
    return ElementTree.fromstring(chart)


def words(chart: str, kind: str = "") -> list[str]:
    """Return what is written in the chart, in one style or all."""
    return [text.text or "" for text in parsed(chart).iter("text") if kind in ("", text.get("class"))]


def drawn(chart: str, kind: str) -> list[ElementTree.Element]:
    """Return what is drawn in one style, the legend apart."""
    return [element for element in parsed(chart).iter() if element.get("class") == kind and element.tag != "line"]


@pytest.mark.parametrize(
    ("points", "story"),
    [
        pytest.param([], "No balance has been reported yet.", id="none"),
        pytest.param(reported(1000), "1 balance reported, 10.00. None disagrees with what it should be.", id="one"),
        pytest.param(
            reported(123_456, 500),
            "2 balances reported, from 1,234.56 to 5.00. None disagrees with what it should be.",
            id="two",
        ),
        pytest.param(
            reported(1000, (1500, 1000), (1600, 1100)),
            "3 balances reported, from 10.00 to 16.00. 2 disagree with what they should be, first at 2026-03-01 "
            "00:00:01 UTC: 15.00 instead of 10.00.",
            id="two that disagree",
        ),
        pytest.param(
            reported(1000, (1, 0)),
            "2 balances reported, from 10.00 to 0.01. 1 disagrees with what it should be, first at 2026-03-01 "
            "00:00:01 UTC: 0.01 instead of 0.00.",
            id="one that disagrees, and should be nothing",
        ),
    ],
)
def test_a_balance_chart_tells_its_story_in_words(points: Sequence[ReportedBalance], story: str) -> None:
    """A screen reader reads out what others see."""
    chart = parsed(balance_chart(points, player_id="p1"))
    assert (chart.findtext("title"), chart.findtext("desc")) == ("Balance of p1", story)
    assert chart.get("role") == "img"


def test_a_player_is_escaped() -> None:
    """A player may be called anything."""
    chart = balance_chart(reported(1, 2), player_id="</title><script>alert(1)</script>")
    assert "<script" not in chart
    assert parsed(chart).findtext("title") == "Balance of </title><script>alert(1)</script>"


@pytest.mark.parametrize(
    ("points", "labels"),
    [
        pytest.param(reported(1000), ["9.00", "10.00", "11.00"], id="one"),
        pytest.param(reported(1000, 1000), ["9.00", "10.00", "11.00"], id="equal"),
        pytest.param(reported(0, 1), ["0.00", "0.01", "0.02"], id="a cent apart"),
        pytest.param(reported(-1, 1), ["-0.01", "0.00", "0.01", "0.02"], id="below zero"),
        pytest.param(reported(0, 99), ["0.00", "0.20", "0.40", "0.60", "0.80", "1.00"], id="just under a unit"),
        pytest.param(reported(0, 100), ["0.00", "0.20", "0.40", "0.60", "0.80", "1.00", "1.20"], id="a unit"),
        pytest.param(
            reported(1000, (1000, 2000)), ["10.00", "12.00", "14.00", "16.00", "18.00", "20.00", "22.00"],
            id="up to what should be",
        ),
        pytest.param(
            reported(10**15, 10**15 + 1), ["10,000,000,000,000.00", "10,000,000,000,000.01", "10,000,000,000,000.02"],
            id="more cents than a float tells apart as units",
        ),
    ],
)  # fmt: skip
def test_the_axis_of_money_has_round_amounts(points: Sequence[ReportedBalance], labels: list[str]) -> None:
    """From below the least to above the most, exactly to the cent."""
    assert [
        text for text in words(balance_chart(points, player_id="p")) if re.fullmatch(r"-?[\d,]+\.\d\d", text)
    ] == labels


@pytest.mark.parametrize(
    ("points", "labels"),
    [
        pytest.param(reported(1), ["00:00:00.000"], id="one"),
        pytest.param(reported(1, 2, step_millis=0), ["00:00:00.000"], id="two at once"),
        pytest.param(reported(1, 2), ["00:00:00.000", "00:00:01.000"], id="a second"),
        pytest.param(
            reported(1, 2, step_millis=DAY_MILLIS - 1), ["00:00:00.000", "23:59:59.999"], id="just under a day"
        ),
        pytest.param(
            reported(1, 2, step_millis=DAY_MILLIS),
            ["2026-03-01 00:00:00", "2026-03-02 00:00:00"],
            id="a day: with the date",
        ),
    ],
)
def test_the_axis_of_time_says_from_when_to_when(points: Sequence[ReportedBalance], labels: list[str]) -> None:
    """In UTC, with the date where the time of the day would not be enough."""
    chart = balance_chart(points, player_id="p")
    assert [text for text in words(chart) if ":" in text] == labels
    assert "time (UTC)" in words(chart)


def test_what_disagrees_is_red_crossed_and_written_out() -> None:
    """Not by colour alone: a cross for each, broken lines, and the first and the last difference in figures."""
    chart = balance_chart(reported(1000, (1500, 1000), (1550, 1000), (700, 1000), 1000), player_id="p")
    assert len(drawn(chart, "chart-cross")) == 3
    assert len(drawn(chart, "chart-dot")) == 2
    assert words(chart, "chart-difference") == ["+5.00", "−3.00"]
    assert [path.find("title") is not None for path in drawn(chart, "chart-cross")] == [True] * 3
    assert drawn(chart, "chart-cross")[0].findtext("title") == "00:00:01.000 UTC: 15.00 instead of 10.00"
    # Right, then a stretch that is wrong as a whole, then right again.
    assert len(drawn(chart, "chart-wrong")) == 1
    assert len(drawn(chart, "chart-reported")) == 1
    assert "disagrees" in words(chart)


def test_what_agrees_is_not_red() -> None:
    """Nor is what cannot be compared."""
    points = [*reported(1000, 900), ReportedBalance(NOW_MILLIS + 5_000, 800, None)]
    chart = balance_chart(points, player_id="p")
    for kind in ("chart-cross", "chart-wrong", "chart-gap", "chart-difference"):
        assert not drawn(chart, kind)
    assert "disagrees" not in words(chart)
    assert len(drawn(chart, "chart-dot")) == 3


def test_the_line_of_what_should_be_leaves_out_what_is_not_known() -> None:
    """It has a step for each balance that could be compared."""
    points = [ReportedBalance(NOW_MILLIS, 5, None), *reported(10, (30, 20))]
    (line,) = drawn(balance_chart(points, player_id="p"), "chart-expected")
    assert line.get("d", "").count("V") == 1


def test_a_long_series_stays_small() -> None:
    """Five hundred balances are a line; dots are for what is wrong, and not for more than can be told apart."""
    chart = balance_chart(reported(*((k + 1, k) if k >= 100 else k for k in range(500))), player_id="p")
    assert not drawn(chart, "chart-dot")
    assert 60 <= len(drawn(chart, "chart-cross")) <= 80
    assert len(chart) < 60_000


def coordinates(chart: str) -> list[float]:
    """Return the heights and places of all that is written or marked."""
    return [float(element.get(name, 0)) for element in parsed(chart).iter() for name in ("x", "y", "cx", "cy")]


@pytest.mark.parametrize(
    "chart",
    [
        pytest.param(balance_chart(reported(1), player_id="p"), id="one balance"),
        pytest.param(balance_chart(reported(-5, 10**15), player_id="p"), id="far apart"),
        pytest.param(balance_chart(reported(10**15, (5, 10**15)), player_id="p"), id="a large difference"),
        pytest.param(latencies_chart([0.0]), id="no time at all"),
        pytest.param(latencies_chart([1e9]), id="for ever"),
        pytest.param(latencies_chart([0.001, 1e9]), id="both"),
    ],
)
def test_nothing_is_drawn_outside(chart: str) -> None:
    """Whatever the values are."""
    width, height = (float(size) for size in parsed(chart).attrib["viewBox"].split()[2:])
    assert all(0 <= place <= max(width, height) for place in coordinates(chart))
    assert all(float(text.get("y", 0)) <= height for text in parsed(chart).iter("text"))


@pytest.mark.parametrize(
    ("latencies", "percent", "value"),
    [
        pytest.param([], 50, 0.0, id="none"),
        pytest.param([7.0], 50, 7.0, id="one"),
        pytest.param([7.0], 99, 7.0, id="one, at the top"),
        pytest.param([1.0, 2.0], 50, 1.0, id="the lower of two"),
        pytest.param([1.0, 2.0], 51, 2.0, id="and just above"),
        pytest.param([1.0, 2.0, 3.0], 0, 1.0, id="the least"),
        pytest.param([1.0, 2.0, 3.0], 100, 3.0, id="the most"),
        pytest.param([1.0, 2.0, 3.0], 33.3, 1.0, id="a fraction below a third"),
        pytest.param([1.0, 2.0, 3.0], 33.4, 2.0, id="and just above it"),
        pytest.param([float(k) for k in range(1, 101)], 95, 95.0, id="of a hundred"),
        pytest.param([float(k) for k in range(1, 101)], 99, 99.0, id="of a hundred, nearly all"),
    ],
)
def test_percentiles_are_values_that_occurred(latencies: Sequence[float], percent: float, value: float) -> None:
    """By nearest rank: as many as that do not exceed it."""
    assert percentile(latencies, percent) == value


def counts(chart: str) -> list[str]:
    """Return what the bars say."""
    return [bar.findtext("title", "") for bar in parsed(chart).iter("rect")]


@pytest.mark.parametrize(
    ("latencies", "bars"),
    [
        pytest.param([], [], id="none"),
        pytest.param([3.0], ["1 in 2 ms to 5 ms"], id="one"),
        pytest.param([5.0, 5.0], ["2 in 2 ms to 5 ms"], id="on the limit"),
        pytest.param([5.0, 5.01], ["1 in 2 ms to 5 ms", "1 in 5 ms to 10 ms"], id="on both sides of it"),
        pytest.param([0.0, 0.01, 0.02], ["2 in 0 to 0.01 ms", "1 in 0.01 ms to 0.02 ms"], id="hardly any time"),
        pytest.param([999.0, 1_500.0], ["1 in 500 ms to 1 s", "1 in 1 s to 2 s"], id="about a second"),
        pytest.param([49_000.0, 90_000.0], ["2 in 20 s to 50 s"], id="beyond the last limit"),
        pytest.param([2.5] * 1_234, ["1,234 in 2 ms to 5 ms"], id="many"),
    ],
)
def test_latencies_are_counted_in_buckets(latencies: list[float], bars: list[str]) -> None:
    """Each answer is in one bucket, whose upper limit it does not exceed."""
    assert counts(latencies_chart(latencies)) == bars


def test_three_percentiles_are_marked_and_named() -> None:
    """With their values, in the chart and in words."""
    chart = latencies_chart([*[4.0] * 90, *[40.0] * 8, 400.0, 4_000.0])
    assert words(chart, "chart-value") == ["p50 4.00 ms", "p95 40.0 ms", "p99 400.0 ms"]
    assert parsed(chart).findtext("desc") == (
        "100 answers: 50 % within 4.00 ms, 95 % within 40.0 ms, 99 % within 400.0 ms; the slowest took 4.00 s."
    )


def test_no_answers_yet() -> None:
    """The chart says so, instead of standing empty."""
    assert words(latencies_chart([])) == ["Nothing was answered yet."]
    assert words(balance_chart([], player_id="p")) == ["No balance has been reported yet."]


@pytest.mark.parametrize("chart", [balance_chart(reported(1, (3, 2)), player_id="p"), latencies_chart([1.0, 20.0])])
def test_colours_come_from_the_style_sheet(chart: str) -> None:
    """So they follow light and dark, and the page's policy admits the chart: no colour, no style, no script in it."""
    attributes = {name for element in parsed(chart).iter() for name in element.attrib}
    assert not attributes & {"fill", "stroke", "style", "color"}
    assert not {name for name in attributes if name.startswith("on")}
