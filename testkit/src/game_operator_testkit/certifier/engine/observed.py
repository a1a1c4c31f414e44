"""What a run has seen of the wallet so far, over all scenarios: its pace, its limits and its habits."""

from collections import Counter, deque
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median
from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import WithdrawCall
from game_operator_testkit.certifier.engine.wire import odd_shape
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.kept_connections import ClosedUnansweredError
from game_operator_testkit.provider.requests import Manner

#: The pace is that of the first calls, sent one at a time.
_PACED_BY: Final = 25
#: At this pace, and above it, a scenario is played in full.
_USUAL_MS: Final = 40.0
#: Replies that are compared with later ones.
_MOST_REPLIES: Final = 10_000
_APART_MILLIS: Final = 1
#: Clocks of one wallet are not so far apart; time zones are. What is further apart is no time in milliseconds.
_FAR_MILLIS: Final = 900_000
_DAY_MILLIS: Final = 86_400_000
#: So often it is tried whether something goes wrong by chance, if it does not.
_MOST_IN_VAIN: Final = 2
_BROKEN_OFF: Final = frozenset({Manner.CUT, Manner.HANG_UP, Manner.HALF})


@dataclass(kw_only=True, eq=False, repr=False)
class Observed:
    """
    What is known of the wallet by now.

    Attributes:
        wager_cents: A wager that the wallet accepted, where it limits them; None while no limit was met.
        is_limited: Whether a limit of the wallet's has refused a wager.
        failed_at_first: How many calls were answered SYSTEM_ERROR, and otherwise when they were sent again.
        repeated_in_vain: How many stayed SYSTEM_ERROR.
        sent: How many requests were sent.
        closed: The kept connections that were closed before one byte of an answer; the calls were sent again.
        last: The last answer, and the scenario that it belongs to.
        broken_off: The last request that was broken off on purpose, and its scenario.
        is_gone: Whether the wallet accepted no connection for seconds.
        lags_seconds: How long player-balance was behind; 0.0 if it never was.
        late_seconds: How long after its answer the money of a movement moved; 0.0 if it never was late.
        refused_since: By player, the first of the latest calls that were all refused with one code, and its scenario;
            if they fail, the call before them.
        load_ms: How long each answer under load took.
        waited_in_vain: Whether a balance was waited for that never came.
        accepted: The paths at which a movement was accepted.
        movements: The last two movements, sent alone, and what each moves if it is carried out.
        debited: The last withdraw that was debited as it should be, and the call that it carried.
        exact_to: The steps that a balance check was no multiple of, so that it does not round to them.
        odd_shapes: What was unusual in the writing of replies, and the first call that was answered so.
        codes: The codes that were heard.
        repeated: The kinds of calls whose repeat was answered as the first time, and moved nothing.
        zero_is_nobody: Whether a player was not found any more once all their money was wagered.
        unjudged: What keeps balances from being compared, in words, such as rounding; "" if nothing does.
        seen_at_rest: How often balances were asked for at once while nothing moved.
        at_times: What goes wrong by chance: a kind of call, and what some of many equal ones did.
        tried: How often it was tried whether that happens by chance, and it did not.
        overtaken: Whether, of withdraws at once, some were accepted without money, or one overwrote another.
        reads: Names under which the wallet was seen to read fields, in place of those of the profile.
        no_funds_code: The code by which a withdraw of more than there is was refused, where all there is was accepted.
        scale: What a movement of one cent moves in the answers: 100 or 1/100 where cents and units are mixed up.
    """

    wager_cents: int | None = None
    is_limited: bool = False
    failed_at_first: int = 0
    repeated_in_vain: int = 0
    sent: int = 0
    last: tuple[Carried, str] | None = None
    broken_off: tuple[Carried, str] | None = None
    is_gone: bool = False
    lags_seconds: float = 0.0
    late_seconds: float = 0.0
    waited_in_vain: bool = False
    unjudged: str = ""
    seen_at_rest: int = 0
    overtaken: bool = False
    no_funds_code: str | None = None
    scale: Fraction = Fraction(1)
    zero_is_nobody: bool = False
    closed: list[ClosedUnansweredError] = field(default_factory=list)
    at_times: set[str] = field(default_factory=set)
    tried: Counter[str] = field(default_factory=Counter)
    accepted: set[str] = field(default_factory=set)
    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    movements: deque[tuple[Carried, int]] = field(default_factory=lambda: deque(maxlen=2))
    debited: tuple[Carried, WithdrawCall] | None = None
    exact_to: set[int] = field(default_factory=set)
    odd_shapes: dict[str, str] = field(default_factory=dict)
    codes: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)
    refused_since: dict[str, tuple[Carried, str]] = field(default_factory=dict)
    load_ms: list[float] = field(default_factory=list)
    _last_of: dict[str, tuple[Carried, str]] = field(default_factory=dict, init=False)
    _first_ms: list[float] = field(default_factory=list, init=False)
    _replies: dict[bytes, Carried] = field(default_factory=dict, init=False)
    #: How far the wallet's clock is ahead of ours by its first answer, and the timestamps that it has returned.
    _ahead_millis: int | None = field(default=None, init=False)
    _timestamps: set[int] = field(default_factory=set, init=False)

    def note(self, heard: Carried, scenario: str, player_id: str, *, alone: bool) -> None:
        """Note an answer to a call of a player; *alone* says whether no other call was under way."""
        self.sent += 1
        self.last = heard, scenario
        if shape := odd_shape(heard):
            self.odd_shapes.setdefault(shape, heard.request.title)
        if heard.request.manner in _BROKEN_OFF:
            self.broken_off = heard, scenario
        if heard.succeeded:
            self.refused_since.pop(player_id, None)
        elif heard.code:
            self.codes.add(heard.code)
            self._note_refusal(heard, scenario, player_id)
        if heard.reply is not None and heard.reply.timestamp and len(self._replies) < _MOST_REPLIES:
            self._replies.setdefault(heard.body, heard)
        self._last_of[player_id] = heard, scenario
        if alone and heard.status and len(self._first_ms) < _PACED_BY:
            self._first_ms.append(heard.elapsed_ms)

    def _note_refusal(self, heard: Carried, scenario: str, player_id: str) -> None:
        before = self._last_of.get(player_id)
        if before is not None and before[0].code == heard.code and player_id in self.refused_since:
            return
        if heard.code != WebhookErrorCode.SYSTEM_ERROR:
            before = None  # Only a failure may be what the call before has left behind.
        self.refused_since[player_id] = before or (heard, scenario)

    @property
    def usual_ms(self) -> float:
        """What an answer takes, one call at a time."""
        return median(self._first_ms) if self._first_ms else 0.0

    def times(self, usual: int, least: int) -> int:
        """Return how often something is done: *usual* times, with a slow wallet fewer, but *least* times."""
        slower = max(1.0, self.usual_ms / _USUAL_MS)
        return max(least, min(usual, round(usual / slower)))

    def takes_a_try(self, kind: str) -> bool:
        """Return whether it is to be tried if *kind* goes wrong by chance: not if it was tried often enough in vain."""
        self.tried[kind] += 1
        return self.tried[kind] <= _MOST_IN_VAIN

    @property
    def is_slow(self) -> bool:
        """Whether answers take so long that calls are put together where that shows the same."""
        return self.usual_ms > 4 * _USUAL_MS

    @property
    def hides_money(self) -> bool:
        """Whether balances cannot be compared right after a call."""
        return bool(self.unjudged or self.late_seconds or self.is_behind)

    @property
    def is_behind(self) -> bool:
        """Whether player-balance was seen to return an old balance, so that movements say what is right."""
        return self.lags_seconds > 0

    def off_clock_seconds(self, heard: Carried) -> int:
        """
        Return by how many seconds the timestamp of *heard* is off the clock of the first answer; 0 if it is near.

        A stored answer has its old timestamp, which is known.
        """
        stamped_millis = 0 if heard.reply is None else heard.reply.timestamp or 0
        if not stamped_millis or stamped_millis in self._timestamps:
            return 0
        ahead_millis = stamped_millis - heard.began_millis
        if self._ahead_millis is None:
            self._ahead_millis = ahead_millis
        off_millis = ahead_millis - self._ahead_millis
        if _FAR_MILLIS <= abs(off_millis) <= _DAY_MILLIS:
            return round(off_millis / 1_000)
        self._timestamps.add(stamped_millis)
        return 0

    def twin_of(self, heard: Carried, *, elsewhere: bool = False) -> str:
        """
        Return the title of an earlier call with the same answer as *heard*; "" if there was no such call.

        *elsewhere* asks for one of another path: refusals of a kind are alike where a wallet's time stands still.

        A repeat may be answered alike within a millisecond, and a busy wallet's timestamps run ahead of its clock. So
        only an answer that is older than the call counts, and whose timestamp is.
        """
        known = self._replies.get(heard.body)
        if known is None or (known.request.path, known.request.body) == (heard.request.path, heard.request.body):
            return ""
        if elsewhere and known.request.path == heard.request.path:
            return ""
        stamped_millis = 0 if heard.reply is None else heard.reply.timestamp or 0
        is_older = heard.began_millis - max(known.began_millis, stamped_millis) > _APART_MILLIS
        return known.request.title if is_older else ""
