"""
The balances that wallets report, beside what they should be.

The service does not know what a player owns, so it believes the first balance reported. From there on it adds up every
movement that was answered. Answers to calls that were under way together cross, and a call without an answer may have
moved money or not. Therefore *calls of one player that overlap are judged together*, once the last of them has ended:

- Each balance reported must be one that some of the calls begun so far could have left.
- The calls that moved money must lead to one of the balances reported, because the last of them reported it.

A balance that passes both may be right, and is not called wrong. The first answer that nothing overlaps shows a wallet
that moved too much or too little.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from game_operator_testkit.sandbox.dealing.dealt import Dealt

#: So many of a player's newest balances are known again in the answer to a repeat.
_KNOWN_AGAIN: Final = 500
#: So many mistakes of a player are kept, the first ones.
_MOST_MISTAKES: Final = 100
#: So many balances may be in question at once; beyond, a player's are believed anew.
_MOST_POSSIBLE: Final = 2_048


@dataclass(slots=True)
class ReportedBalance:
    """
    A balance in an answer of the wallet.

    Attributes:
        reported_cents: The balance it carried.
        expected_cents: What it should have been; None while that is unknown, because calls overlapped.
        number: The number of the answer in the live log; 0 if it has none.
        added_cents: Of a mistake, by how much it changed the difference to what should be.
    """

    reported_cents: int
    expected_cents: int | None = None
    number: int = 0
    added_cents: int = 0


@dataclass(frozen=True, slots=True)
class PlayerBalance:
    """
    The balance of one player, as far as it is known.

    Attributes:
        player_id: Whose balance.
        last_cents: The last balance reported, or None.
        expected_cents: What it should be now; None while that is unknown.
        mistakes: The balances with another difference than the one before, until they are accepted: a wallet that
            once moved too much reports a wrong balance from then on, and only the first of them shows the mistake.
        under_way: How many calls have begun and not ended.
        suspects: The bets and claims that may have made the first wrong balance: all since the last right one.
    """

    player_id: str
    last_cents: int | None
    expected_cents: int | None
    mistakes: tuple[ReportedBalance, ...]
    under_way: int
    suspects: tuple[Dealt, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether no balance was wrong."""
        return not self.mistakes


@dataclass(slots=True)
class _Player:
    """
    ``balances`` are those that may be right, None if any may; ``gap_cents`` is what the last one was wrong by.

    Those from ``under_way`` to ``before`` are of the calls that overlap just now; ``before`` has the gap and the number
    of mistakes when they began.
    """

    earlier_cents: deque[int] = field(default_factory=lambda: deque(maxlen=_KNOWN_AGAIN))
    last_cents: int | None = None
    balances: set[int] | None = None
    under_way: int = 0
    begun: int = 0
    possible: set[int] | None = None
    moved_cents: int = 0
    unknown: bool = False
    reported: list[ReportedBalance] = field(default_factory=list)
    before: tuple[int, int] = (0, 0)
    gap_cents: int = 0
    mistakes: list[ReportedBalance] = field(default_factory=list)
    touched: dict[Dealt, None] = field(default_factory=dict)
    suspects: tuple[Dealt, ...] = ()

    def begin(self, may_move_cents: int, about: Dealt | None) -> None:
        if self.under_way == 0:
            self.possible = None if self.balances is None else set(self.balances)
            self.begun, self.moved_cents, self.unknown, self.reported = 0, 0, False, []
            self.before = self.gap_cents, len(self.mistakes)
        self.begun += 1
        self.under_way += 1
        if about is not None:
            self.touched[about] = None
        if self.possible is not None:
            self.possible |= {cents + may_move_cents for cents in self.possible}
            self.possible = self.possible if len(self.possible) <= _MOST_POSSIBLE else None

    def report(self, point: ReportedBalance, *, repeated: bool) -> None:
        of_old = repeated and point.reported_cents in self.earlier_cents
        self.earlier_cents.append(point.reported_cents)
        self.last_cents = point.reported_cents
        # A wallet may answer a repeat as it did the first time (docs/decisions/0012), which says nothing of today.
        if of_old:
            return
        self.reported.append(point)
        self.unknown = self.unknown or len(self.reported) > _MOST_POSSIBLE
        if self.possible is not None and point.reported_cents not in self.possible:
            point.expected_cents = self._due(point, self.possible)
            self._find_mistakes()

    def end(self, moved_cents: int | None, about: Dealt | None) -> None:
        if self.under_way == 0:
            return
        self.under_way -= 1
        self.moved_cents += moved_cents or 0
        self.unknown = self.unknown or moved_cents is None
        if self.under_way > 0:
            return
        reported = {point.reported_cents for point in self.reported}
        if self.unknown:
            self.balances = None
        elif self.balances is None:
            self.balances = reported or None
        else:
            expected = {cents + self.moved_cents for cents in self.balances}
            self.balances = (expected & reported) or expected
            self._compare(self.balances)
        if self.mistakes:
            self.suspects = self.suspects or tuple(self.touched)
        if about is not None:
            # The last call may have moved something only after its right answer.
            self.touched = {about: None}

    def accept(self) -> None:
        # What is under way now began before, and says nothing of the balance that is believed next.
        self.balances, self.possible, self.unknown = None, None, True
        self.gap_cents, self.mistakes, self.suspects = 0, [], ()

    def _compare(self, right: set[int]) -> None:
        open_points = [point for point in self.reported if point.expected_cents is None]
        for point in self.reported:
            if point.expected_cents is not None and point.reported_cents not in right:
                point.expected_cents = self._due(point, right)
        agreeing = next((point for point in reversed(open_points) if point.reported_cents in right), None)
        if agreeing is not None:
            agreeing.expected_cents = agreeing.reported_cents
        elif open_points and open_points[-1] is self.reported[-1]:
            open_points[-1].expected_cents = self._due(open_points[-1], right)
        self._find_mistakes()

    def _due(self, point: ReportedBalance, possible: Iterable[int]) -> int:
        """Return the one of *possible* that *point* should have been: what was wrong before is wrong by as much."""
        due_cents = point.reported_cents - self.before[0]
        return min(possible, key=lambda cents: (abs(cents - due_cents), cents))

    def _find_mistakes(self) -> None:
        """Find the mistakes among the balances reported by the calls that overlap: what changed the difference."""
        gap_cents, found_before = self.before
        del self.mistakes[found_before:]
        for point in self.reported:
            if point.expected_cents is None:
                continue
            added_cents = point.reported_cents - point.expected_cents - gap_cents
            gap_cents += added_cents
            if added_cents and gap_cents and len(self.mistakes) < _MOST_MISTAKES:
                point.added_cents = added_cents
                self.mistakes.append(point)
        self.gap_cents = gap_cents


class BalanceBoard:
    """
    The balances reported of many players, from any thread.

    For each call: ``begin`` before it is sent first, ``reported`` for each answer with a balance, ``end`` when it was
    answered definitely or given up. A call that is delivered several times begins and ends once.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._players: OrderedDict[str, _Player] = OrderedDict()

    def begin(self, player_id: str, may_move_cents: int = 0, about: Dealt | None = None) -> None:
        """A call *about* a bet or claim is about to be sent. It may move *may_move_cents*, less than 0 for a debit."""
        with self._lock:
            self._player(player_id).begin(may_move_cents, about)

    def reported(self, player_id: str, balance_cents: int, *, repeated: bool = False, number: int = 0) -> None:
        """
        An answer carried the balance of *player_id*.

        *repeated* says whether its call had been answered definitely before: a wallet may then repeat an old balance.
        *number* is that of the answer in the live log.
        """
        with self._lock:
            player = self._player(player_id)
            alone = player.under_way == 0
            if alone:
                player.begin(0, None)
            player.report(ReportedBalance(balance_cents, number=number), repeated=repeated)
            if alone:
                player.end(0, None)

    def end(self, player_id: str, moved_cents: int | None = 0, about: Dealt | None = None) -> None:
        """
        A call *about* a bet or claim was answered definitely, or given up.

        *moved_cents* is what it moved according to its answer: 0 if it was refused. None if it was given up, and may
        have moved money or not; the next balance reported is believed then.
        """
        with self._lock:
            player = self._players.get(player_id)
            if player is not None:
                player.end(moved_cents, about)

    def is_alone(self, player_id: str) -> bool:
        """Return whether the call under way has overlapped with no other of its player."""
        with self._lock:
            player = self._players.get(player_id)
            return player is not None and player.begun == 1

    def accept(self, player_id: str) -> None:
        """Believe the next balance reported: somebody else has rightly moved the player's money."""
        with self._lock:
            if player_id in self._players:
                self._players[player_id].accept()

    def players(self) -> list[PlayerBalance]:
        """Return all players: first those whose balance was wrong, and of each kind the latest first."""
        with self._lock:
            seen = [_seen(player_id, player) for player_id, player in reversed(self._players.items())]
        return sorted(seen, key=lambda player: player.agrees)

    def mistakes(self) -> dict[int, ReportedBalance]:
        """Return each mistake that is not accepted, by the number of its answer in the live log."""
        with self._lock:
            points = [point for player in self._players.values() for point in player.mistakes]
            return {point.number: replace(point) for point in points if point.number}

    def _player(self, player_id: str) -> _Player:
        if player_id not in self._players:
            self._players[player_id] = _Player()
        self._players.move_to_end(player_id)
        return self._players[player_id]


def _seen(player_id: str, player: _Player) -> PlayerBalance:
    settled = player.under_way == 0 and player.balances is not None and len(player.balances) == 1
    return PlayerBalance(
        player_id=player_id,
        last_cents=player.last_cents,
        expected_cents=next(iter(player.balances or ())) if settled else None,
        mistakes=tuple(map(replace, player.mistakes)),
        under_way=player.under_way,
        suspects=player.suspects,
    )
