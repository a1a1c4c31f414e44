"""Wallet: the balances it reported, beside what they should be, and how long it took to answer."""

from collections.abc import Sequence
from typing import ClassVar, Final

from starlette.requests import Request
from starlette.responses import Response

from game_operator.text import duration
from game_operator_testkit.control_room.page_context import LOOKED_THROUGH, Page, see_other
from game_operator_testkit.provider.latency import percentile
from game_operator_testkit.sandbox.dealing.balances import PlayerBalance
from game_operator_testkit.sandbox.service.exchange_log import Exchange

_SHOWN: Final = 200
_PERCENTS: Final = (50, 95, 99)


class WalletPage(Page):
    """The balances, the latency, and the form that accepts a balance."""

    PATH: ClassVar[str] = "/wallet"
    TITLE: ClassVar[str] = "Wallet"
    FORMS: ClassVar[Sequence[str]] = ("accept",)

    async def show(self, request: Request) -> Response:
        """Show all players, and how long the wallet took to answer."""
        players = self._sandbox.service.balances.players()
        exchanges = self._sandbox.live.recent(LOOKED_THROUGH)
        answered = [each.elapsed_ms for each in exchanges if each.direction == "webhook" and each.status is not None]
        return self._context.page(
            request,
            "wallet.html",
            players=players[:_SHOWN],
            total=len(players),
            wrong=[(player, *self._shown_by(player)) for player in players if not player.agrees],
            latency=latency_in_words(answered),
        )

    async def accept(self, request: Request) -> Response:
        """Believe the next balance of a player."""
        self._sandbox.service.balances.accept((await self._context.form(request)).get("player_id", ""))
        return see_other(self.PATH)

    def _shown_by(self, player: PlayerBalance) -> tuple[Exchange | None, int]:
        """Return the call that showed the first mistake, if the live log has it, and whose repeat it is, or 0."""
        log = self._sandbox.live
        call = log.exchange(player.mistakes[0].number)
        first = 0 if call is None else min(log.deliveries(call), default=0)
        return call, first if call is not None and first < call.number else 0


def latency_in_words(samples_ms: Sequence[float]) -> str:
    """Return how long the wallet took, by three percentiles and the slowest answer."""
    if not samples_ms:
        return "Nothing was answered yet."
    ordered = sorted(samples_ms)
    within = (f"{percent} % within {duration(percentile(ordered, percent))}" for percent in _PERCENTS)
    return f"{len(ordered)} answers in the live log: {', '.join(within)}; the slowest took {duration(ordered[-1])}."
