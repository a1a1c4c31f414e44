"""Notices while a storm goes on whose balance went wrong, and with which bets it may have."""

from collections import defaultdict

from game_operator.models.webhooks import Reply
from game_operator.sandbox.balances import BalanceBoard
from game_operator.sandbox.dealt import Dealt

__all__ = ["Watch"]

_KEPT_POINTS = 16


class Watch:
    """
    A dealer's listener that narrows a wrong balance down.

    A balance told while nothing else of its player is under way must be what the answers so far amount to. The bets
    since the last balance that was right are the suspects of the first that is wrong.
    """

    def __init__(self, players: int) -> None:
        self._board = BalanceBoard(kept_points=_KEPT_POINTS, kept_players=max(1, players))
        self._under_way: defaultdict[str, int] = defaultdict(int)
        self._touched: defaultdict[str, dict[int, Dealt]] = defaultdict(dict)
        #: By player, the bets that the first wrong balance came after.
        self.suspects: dict[str, list[Dealt]] = {}
        self._told = 0

    def begin(self, dealt: Dealt, may_move_cents: int) -> None:
        """A call is sent for the first time."""
        self._under_way[dealt.player_id] += 1
        self._touched[dealt.player_id][id(dealt)] = dealt
        self._board.begin(dealt.player_id, may_move_cents)

    def told(self, dealt: Dealt, reply: Reply, *, repeated: bool) -> None:
        """A reply was heard."""
        if reply.balance_cents is not None:
            self._told += 1
            self._board.told(
                dealt.player_id, at_millis=self._told, balance_cents=reply.balance_cents, repeated=repeated
            )

    def end(self, dealt: Dealt, moved_cents: int | None) -> None:
        """A call was answered definitely or given up."""
        player_id = dealt.player_id
        self._board.end(player_id, moved_cents)
        self._under_way[player_id] -= 1
        if self._under_way[player_id] or player_id in self.suspects:
            return
        seen = self._board.player(player_id)
        if seen is not None and not seen.agrees:
            self.suspects[player_id] = list(self._touched[player_id].values())
        self._touched[player_id] = {id(dealt): dealt}
