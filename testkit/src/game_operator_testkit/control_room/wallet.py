"""Wallet: the balances it reported, beside what they should be, and how long it took to answer."""

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from math import ceil
from typing import ClassVar, Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from game_operator.text import duration, money
from game_operator_testkit.control_room.page_context import LOOKED_THROUGH, Page, environment, see_other
from game_operator_testkit.control_room.wrong_balances import wrong_balance
from game_operator_testkit.provider.latency import latency_chart, percentile
from game_operator_testkit.sandbox.dealing.balances import ReportedBalance

_SHOWN: Final = 200
_PERCENTS: Final = (50, 95, 99)

#: Edges of the chart of balances in units of the drawing, one of which is about a pixel.
_FRAME: Final = {"width": 440, "height": 230, "right": 416, "top": 30, "floor": 190, "letter": 6.7}
#: With more balances than these, only the wrong ones are marked, and of those not more than these.
_MOST_DOTS: Final = 80
_TICKS: Final = 5
#: Around a balance that never changes.
_FLAT_STEP_CENTS: Final = 100


class WalletPage(Page):
    """The balances, the latencies, and the form that accepts a balance."""

    PATH: ClassVar[str] = "/wallet"
    TITLE: ClassVar[str] = "Wallet"
    FORMS: ClassVar[Sequence[str]] = ("accept",)

    async def show(self, request: Request) -> Response:
        """Show all players, and the balances of one of them."""
        board = self._sandbox.service.balances
        players = board.players()
        asked = request.query_params.get("player", players[0].player_id if players else "")
        exchanges = self._sandbox.live.recent(LOOKED_THROUGH)
        answered = [each for each in exchanges if each.direction == "webhook" and each.status is not None]
        # The charts escape what they write themselves.
        return self._context.page(
            request,
            "wallet.html",
            players=players[:_SHOWN],
            total=len(players),
            wrong=[wrong_balance(self._sandbox, player) for player in players if not player.agrees],
            asked=asked,
            chosen=next((player for player in players if player.player_id == asked), None),
            balances=Markup(balance_chart(board.series(asked), player_id=asked)),  # noqa: S704
            answers=len(answered),
            latencies=Markup(latencies_chart([each.elapsed_ms for each in answered])),  # noqa: S704
        )

    async def accept(self, request: Request) -> Response:
        """Believe the next balance of a player."""
        self._sandbox.service.balances.accept((await self._context.form(request)).get("player_id", ""))
        return see_other(self.PATH)


def latencies_chart(samples_ms: Sequence[float]) -> str:
    """Return how often the wallet took how long, with three percentiles, as an SVG element."""
    if not samples_ms:
        return latency_chart([], [], "Nothing was answered yet.")
    ordered = sorted(samples_ms)
    percentiles = [(percent, percentile(ordered, percent)) for percent in _PERCENTS]
    said = ", ".join(f"{percent} % within {duration(value)}" for percent, value in percentiles)
    story = f"{len(ordered)} answers: {said}; the slowest took {duration(ordered[-1])}."
    return latency_chart(ordered, [(value, f"p{percent} {duration(value)}") for percent, value in percentiles], story)


def balance_chart(points: Sequence[ReportedBalance], *, player_id: str) -> str:
    """
    Return the balances reported of a player beside what they should be, oldest first, as an SVG element.

    Where they differ, the line is red and broken, the balance is marked with a cross, and the first and the last
    difference are written out. Money is whole cents up to the label.
    """
    template = environment().get_template("balance_chart.svg")
    if not points:
        return template.render(_FRAME, player_id=player_id, points=points)
    wrong = [point for point in points if not point.agrees]
    ticks = _money_ticks(points)
    left = 12 + _FRAME["letter"] * max(len(money(tick)) for tick in ticks)
    first, last = points[0].at_millis, max(point.at_millis for point in points)
    marked = points if len(points) <= _MOST_DOTS else wrong
    return template.render(
        _FRAME,
        player_id=player_id,
        points=points,
        wrong=wrong,
        ticks=ticks,
        left=left,
        first=first,
        last=last,
        x=_scale(first, last, left, _FRAME["right"]),
        y=_scale(ticks[0], ticks[-1], _FRAME["floor"], _FRAME["top"]),
        lines=_lines(points),
        marked=marked[:: ceil(len(marked) / _MOST_DOTS) or 1],
    )


def _scale(least: int, most: int, start: float, stop: float) -> Callable[[int], float]:
    """Return where values lie: *least* at *start*, *most* at *stop*; in the middle if both are equal."""
    span = stop - start
    return lambda value: start + span * ((value - least) / (most - least) if most > least else 0.5)


def _money_ticks(points: Sequence[ReportedBalance]) -> list[int]:
    """Return round amounts of cents that reach from the least to the most there is to show."""
    values = [point.reported_cents for point in points]
    values += [point.expected_cents for point in points if point.expected_cents is not None]
    least, most = min(values), max(values)
    step = _FLAT_STEP_CENTS
    if most > least:
        # 1, 2 or 5 times a power of ten, of which about five make up the span.
        power: int = 10 ** max(len(str(most - least)) - 2, 0)
        step = next(digits * power for digits in (1, 2, 5, 10, 20, 50) if digits * power * _TICKS >= most - least)
    first = least // step * step - (step if least == most else 0)
    # Without room on top a line along the highest value would lie on the frame.
    last = -(-most // step) * step + (step if least == most or most % step == 0 else 0)
    return list(range(first, last + 1, step))


def _lines(points: Sequence[ReportedBalance]) -> list[tuple[str, list[tuple[int, int]]]]:
    """Return lines of times and cents with their classes: what should be, then each stretch of what was reported."""
    expected = [(point.at_millis, point.expected_cents) for point in points if point.expected_cents is not None]
    lines = [("chart-expected", expected)] if expected else []
    for agrees, pairs in groupby(pairwise(points), lambda pair: pair[1].agrees):
        (before, point), *rest = pairs
        stretch = [before, point, *(each for _, each in rest)]
        kind = "chart-reported" if agrees else "chart-wrong"
        lines.append((kind, [(each.at_millis, each.reported_cents) for each in stretch]))
    return lines
