"""
What wallets told of their players' balances, beside what the balances should be.

Nobody tells the service what a player owns, so the first balance told is believed; from there on every movement that
was answered is added up. Answers to calls that were under way together cross, and a call without an answer may have
moved money or not. Therefore *calls of one player that overlap are judged together*, once the last of them has ended:

- Each balance told must be one that some of the calls begun so far could have left.
- The calls that moved money must lead to one of the balances told, for the last of them told it.

Whatever passes both may be right, and is not called wrong. A wallet that moved too much or too little is found out by
the first of that player's answers that nothing overlaps.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Final

_KEPT_POINTS: Final = 500
_KEPT_PLAYERS: Final = 1_000
#: So many balances may be in question at once; beyond, a player's are believed anew.
_MOST_POSSIBLE: Final = 2_048


@dataclass(frozen=True, slots=True)
class ToldBalance:
    """
    A balance in an answer of the wallet.

    Attributes:
        at_millis: When the answer came.
        told_cents: The balance it carried.
        expected_cents: What it should have been; None while that cannot be said, because calls overlapped.
    """

    at_millis: int
    told_cents: int
    expected_cents: int | None

    @property
    def agrees(self) -> bool:
        """Whether nothing is known to be wrong with it."""
        return self.expected_cents in (None, self.told_cents)


@dataclass(frozen=True, slots=True)
class PlayerBalance:
    """
    How it stands with one player.

    Attributes:
        player_id: Whose balance.
        last: What was told last; None if nothing was.
        expected_cents: What it should be now; None while that cannot be said.
        first_wrong: The first balance that was wrong, until it is accepted; None if none was.
        wrong_count: How many were.
        under_way: How many calls have begun and not ended.
    """

    player_id: str
    last: ToldBalance | None
    expected_cents: int | None
    first_wrong: ToldBalance | None
    wrong_count: int
    under_way: int

    @property
    def agrees(self) -> bool:
        """Whether no balance was wrong."""
        return self.first_wrong is None


@dataclass(slots=True)
class _Point:
    at_millis: int
    told_cents: int
    expected_cents: int | None = None

    def seen(self) -> ToldBalance:
        return ToldBalance(self.at_millis, self.told_cents, self.expected_cents)


@dataclass(slots=True)
class _Player:
    """``balances`` are those that may be right, None if any may; the rest is of the calls that overlap just now."""

    points: deque[_Point]
    balances: set[int] | None = None
    under_way: int = 0
    possible: set[int] | None = None
    moved_cents: int = 0
    unknown: bool = False
    told: list[_Point] = field(default_factory=list)
    first_wrong: _Point | None = None
    wrong_count: int = 0

    def begin(self, may_move_cents: int) -> None:
        if self.under_way == 0:
            self.possible = None if self.balances is None else set(self.balances)
            self.moved_cents, self.unknown, self.told = 0, False, []
        self.under_way += 1
        if self.possible is not None:
            self.possible |= {cents + may_move_cents for cents in self.possible}
            self.possible = self.possible if len(self.possible) <= _MOST_POSSIBLE else None

    def hear(self, point: _Point, *, repeated: bool) -> None:
        of_old = repeated and any(point.told_cents == earlier.told_cents for earlier in self.points)
        self.points.append(point)
        # A wallet may answer a repeat as it did the first time (docs/decisions/0012), which tells nothing of today.
        if of_old:
            return
        self.told.append(point)
        self.unknown = self.unknown or len(self.told) > _MOST_POSSIBLE
        if self.possible is not None and point.told_cents not in self.possible:
            self._mark(point, self.possible)

    def end(self, moved_cents: int | None) -> None:
        if self.under_way == 0:
            return
        self.under_way -= 1
        self.moved_cents += moved_cents or 0
        self.unknown = self.unknown or moved_cents is None
        if self.under_way == 0:
            self._judge()

    def accept(self) -> None:
        # What is under way now began before, and tells nothing of the balance that is believed next.
        self.balances, self.possible, self.unknown = None, None, True
        self.first_wrong, self.wrong_count = None, 0

    def _judge(self) -> None:
        told = {point.told_cents for point in self.told}
        if self.unknown:
            self.balances = None
        elif self.balances is None:
            self.balances = told or None
        else:
            expected = {cents + self.moved_cents for cents in self.balances}
            self.balances = (expected & told) or expected
            self._compare(self.balances)

    def _compare(self, right: set[int]) -> None:
        open_points = [point for point in self.told if point.expected_cents is None]
        for point in self.told:
            if point.expected_cents is not None and point.told_cents not in right:
                point.expected_cents = _nearest(right, point.told_cents)
        agreeing = next((point for point in reversed(open_points) if point.told_cents in right), None)
        if agreeing is not None:
            agreeing.expected_cents = agreeing.told_cents
        elif open_points and open_points[-1] is self.told[-1]:
            self._mark(open_points[-1], right)

    def _mark(self, point: _Point, possible: Iterable[int]) -> None:
        point.expected_cents = _nearest(possible, point.told_cents)
        self.first_wrong = self.first_wrong or point
        self.wrong_count += 1


def _nearest(possible: Iterable[int], told_cents: int) -> int:
    return min(possible, key=lambda cents: (abs(cents - told_cents), cents))


class BalanceBoard:
    """
    The balances told of many players, from any thread.

    For each call: ``begin`` before it is sent first, ``told`` for each answer that carries a balance, ``end`` when it
    was answered definitely or given up. A call that is delivered several times begins and ends once.

    Args:
        kept_points: How many balances of a player are kept, the newest.
        kept_players: How many players are kept. Those with calls under way stay, then those whose balance is wrong,
            then those that were heard of last.
    """

    def __init__(self, *, kept_points: int = _KEPT_POINTS, kept_players: int = _KEPT_PLAYERS) -> None:
        self._lock = Lock()
        self._kept_points, self._kept_players = kept_points, kept_players
        self._players: OrderedDict[str, _Player] = OrderedDict()

    def begin(self, player_id: str, may_move_cents: int = 0) -> None:
        """A call is about to be sent, which may move *may_move_cents*: less than 0 takes from the player."""
        with self._lock:
            self._player(player_id).begin(may_move_cents)

    def told(self, player_id: str, *, at_millis: int, balance_cents: int, repeated: bool = False) -> None:
        """
        An answer carried a balance.

        Args:
            player_id: Whose.
            at_millis: When it came.
            balance_cents: The balance.
            repeated: Whether the call had been answered definitely before: a wallet may then repeat an old balance.
        """
        with self._lock:
            player = self._player(player_id)
            alone = player.under_way == 0
            if alone:
                player.begin(0)
            player.hear(_Point(at_millis, balance_cents), repeated=repeated)
            if alone:
                player.end(0)

    def end(self, player_id: str, moved_cents: int | None = 0) -> None:
        """
        A call was answered definitely, or given up.

        Args:
            player_id: Whose.
            moved_cents: What it moved, as far as its answer says: 0 if it was refused. None if it was given up, and
                may have moved money or not; the next balance told is believed then.
        """
        with self._lock:
            player = self._players.get(player_id)
            if player is not None:
                player.end(moved_cents)

    def accept(self, player_id: str) -> None:
        """Believe the next balance told: somebody else has moved the player's money, and rightly."""
        with self._lock:
            if player_id in self._players:
                self._players[player_id].accept()

    def players(self) -> list[PlayerBalance]:
        """Return all players: first those whose balance was wrong, and of each kind who was heard of last."""
        with self._lock:
            seen = [_seen(player_id, player) for player_id, player in reversed(self._players.items())]
        return sorted(seen, key=lambda player: player.agrees)

    def disagrees(self) -> bool:
        """Return whether any player's balance was wrong; quicker than to look at all ``players``."""
        with self._lock:
            return any(player.first_wrong is not None for player in self._players.values())

    def player(self, player_id: str) -> PlayerBalance | None:
        """Return how it stands with one player, or None if nothing is known."""
        with self._lock:
            player = self._players.get(player_id)
            return None if player is None else _seen(player_id, player)

    def series(self, player_id: str) -> list[ToldBalance]:
        """Return the balances told of a player, oldest first."""
        with self._lock:
            player = self._players.get(player_id)
            return [] if player is None else [point.seen() for point in player.points]

    def _player(self, player_id: str) -> _Player:
        if player_id in self._players:
            self._players.move_to_end(player_id)
        else:
            self._make_room()
            self._players[player_id] = _Player(deque(maxlen=self._kept_points))
        return self._players[player_id]

    def _make_room(self) -> None:
        spare = len(self._players) + 1 - self._kept_players
        if spare <= 0:
            return
        # To forget a player in the middle of a call would be to judge the rest of its calls without it.
        resting = [player_id for player_id, player in self._players.items() if player.under_way == 0]
        resting.sort(key=lambda player_id: self._players[player_id].first_wrong is not None)
        for player_id in islice(resting, spare):
            del self._players[player_id]


def _seen(player_id: str, player: _Player) -> PlayerBalance:
    settled = player.under_way == 0 and player.balances is not None and len(player.balances) == 1
    return PlayerBalance(
        player_id=player_id,
        last=player.points[-1].seen() if player.points else None,
        expected_cents=next(iter(player.balances or ())) if settled else None,
        first_wrong=player.first_wrong.seen() if player.first_wrong else None,
        wrong_count=player.wrong_count,
        under_way=player.under_way,
    )
