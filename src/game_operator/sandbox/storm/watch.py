"""Notices while a storm goes on whose balance went wrong, and with which bets it may have."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from game_operator.models.webhooks import Reply
from game_operator.sandbox.dealing.balances import BalanceBoard
from game_operator.sandbox.dealing.dealt import Dealt

_KEPT_POINTS: Final = 16


@dataclass(frozen=True, slots=True)
class Finding:
    """
    The first balance of a player that the wallet told wrongly.

    Attributes:
        told_cents: What it told.
        due_cents: What it should have told.
        suspects: The bets since the last balance that was right.
    """

    told_cents: int
    due_cents: int
    suspects: tuple[Dealt, ...]


class Watch:
    """
    A dealer's listener that narrows a wrong balance down.

    A balance told while nothing else of its player is under way must be what the answers so far amount to. The bets
    since the last balance that was right are the suspects of the first that is wrong.

    Args:
        opening: What the players have before, in cents.
    """

    def __init__(self, opening: Mapping[str, int]) -> None:
        self._board = BalanceBoard(kept_points=_KEPT_POINTS, kept_players=max(1, len(opening)))
        self._under_way: defaultdict[str, int] = defaultdict(int)
        self._touched: defaultdict[str, dict[int, Dealt]] = defaultdict(dict)
        #: By player, the first wrong balance.
        self.wrong: dict[str, Finding] = {}
        self._told = 0
        for player_id, cents in opening.items():
            # Otherwise the first balance told would be believed, whatever it is.
            self._board.told(player_id, at_millis=0, balance_cents=cents)

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
        if self._under_way[player_id] or player_id in self.wrong:
            return
        seen = self._board.player(player_id)
        if seen is not None and (first := seen.first_wrong) is not None:
            due_cents = first.told_cents if first.expected_cents is None else first.expected_cents
            self.wrong[player_id] = Finding(first.told_cents, due_cents, tuple(self._touched[player_id].values()))
        self._touched[player_id] = {id(dealt): dealt}
