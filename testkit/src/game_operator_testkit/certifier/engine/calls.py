"""
Calls of one scenario: its two players, and ways to make calls and to send them.

What is asked travels by a function of the run's, so that no scenario knows how its calls travel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

from game_operator.codes import WebhookErrorCode as Code
from game_operator.errors import shown
from game_operator.models.webhooks import BalanceCall, DepositCall, MovingCall, RollbackCall, WebhookCall, WithdrawCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import BATCH_PATHS
from game_operator_testkit.certifier.engine.observed import Observed
from game_operator_testkit.certifier.engine.steps import NotTried
from game_operator_testkit.certifier.engine.supplies import Supplies
from game_operator_testkit.certifier.engine.wire import exception_in
from game_operator_testkit.certifier.report.verdicts import BALANCE_PATH, KnownCause, Note, Symptom, Weight
from game_operator_testkit.provider.bodies import BodyWriter
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.kept_connections import ClosedUnansweredError
from game_operator_testkit.provider.requests import BetCalls, Manner, Request, Seal

#: A call, or a request with its own title.
Asked: TypeAlias = WebhookCall | Request
_MOST_UNIT_CENTS: Final = 500
#: So many wagers each player can pay at the beginning.
PAYS: Final = 20
#: So often a call is sent again that was answered SYSTEM_ERROR: with one of fifty calls failing by chance, two thousand
#: calls would else hardly ever pass.
_MOST_AGAIN: Final = 3
#: A connection is in use that had an answer so short a time ago. After so many numbers of answers there is no limit.
_IN_USE_MS: Final = 500.0
_MANY_NUMBERS: Final = 4


def moved_by(what: Asked) -> int:
    """Return what a call does to its player's balance if it does what it says; 0 for a request."""
    if isinstance(what, WithdrawCall):
        return -what.amount_cents
    return (what.amount_cents or 0) if isinstance(what, DepositCall | RollbackCall) else 0


@dataclass(slots=True, eq=False)
class Player:
    """
    A player of the wallet.

    Attributes:
        id: The player_id.
        opening_cents: The balance at the beginning of the scenario.
        due_cents: What the balance must be now.
    """

    id: str
    opening_cents: int
    due_cents: int


@dataclass(kw_only=True, eq=False, repr=False)
class Calls:
    """
    What a scenario sends.

    Attributes:
        player, other: Two players with money.
        profile: What is assumed of the wallet.
        prefix: What all ids begin with.
        instance_id: The instance that is played.
        carry: Brings requests to the wallet, all at once if there are several, and returns their answers in order.
        act: Does something to the wallet that was supplied (``Supplies``): its name, and what it is given.
        supplied: The names of what the user supplied (``Supplies``), and ``wire`` if calls travel over HTTP.
        supplies: What was supplied; what it does to the wallet is done by ``act``.
        game: The name of the game that is played.
        observed: What the run has seen of the wallet.
        pause: Waits for so many seconds.
        notes: What is wrong and did not end the scenario.
        playing: The players of the bets and claims that have been made, by their ids.
        bets: The bets that have been made.
        told: The balance of each player in the last answer to a movement, in cents, by their ids, where it is known.
        earlier: Calls of the beginning of the run, with their first answers.
        moving: The last answer that was judged, and by how many cents its call must have moved the balance.
        moved_before: The one judged before it.
        suspects: What it means if a balance is off by so many cents: a cause, and more words for the reason.
    """

    player: Player
    other: Player
    profile: Profile
    prefix: str
    instance_id: str | None
    carry: Callable[[Sequence[Request]], list[Carried]]
    act: Callable[..., None]
    supplied: frozenset[str]
    supplies: Supplies
    game: str = "certify"
    observed: Observed = field(default_factory=Observed)
    pause: Callable[[float], object] = lambda _: None
    notes: list[Note] = field(default_factory=list, init=False)
    playing: dict[str, Player] = field(default_factory=dict, init=False)
    bets: list[BetCalls] = field(default_factory=list, init=False)
    told: dict[str, int] = field(default_factory=dict, init=False)
    earlier: list[tuple[MovingCall, Carried]] = field(default_factory=list, init=False)
    suspects: dict[int, tuple[KnownCause, str]] = field(default_factory=dict, init=False)
    moving: tuple[Carried, int] | None = field(default=None, init=False)
    moved_before: tuple[Carried, int] | None = field(default=None, init=False)
    _made: int = field(default=0, init=False)
    # The last call that may have moved money, if it was alone; and the last balance.
    _moved: Carried | None = field(default=None, init=False)
    # The first refusal of each call that was refused alone and would have moved money.
    _refused: dict[bytes, Carried] = field(default_factory=dict, init=False)
    _balance: Carried | None = field(default=None, init=False)
    # The last movements, when balances were compared.
    _recent: tuple[tuple[Carried, int], ...] = field(default=(), init=False)
    # The call of each body; and what was a SUCCESS only when it was sent again.
    _calls: dict[bytes, WebhookCall] = field(default_factory=dict, init=False)
    # The players of the open bets; which bets have ended; and which were open when another of their player ended.
    _open: dict[str, str] = field(default_factory=dict, init=False)
    _ended: set[str] = field(default_factory=set, init=False)
    _outlived: set[str] = field(default_factory=set, init=False)
    # What was sent together with other calls, and what was a SUCCESS.
    _at_once: set[bytes] = field(default_factory=set, init=False)
    _accepted: set[bytes] = field(default_factory=set, init=False)
    # How each call was answered first.
    _first_codes: dict[bytes, str | None] = field(default_factory=dict, init=False)
    _failed_first: list[tuple[int, Carried]] = field(default_factory=list, init=False)
    # Withdraws that got no answer in time, and may still be carried out.
    _in_doubt: list[Request] = field(default_factory=list, init=False)

    # Making calls, and the requests that carry them.

    @cached_property
    def writer(self) -> BodyWriter:
        """Writes bodies under the names of the profile."""
        return BodyWriter(self.profile)

    def fresh(self, word: str = "id") -> str:
        """Return a new id."""
        self._made += 1
        return f"{self.prefix}-{word}-{self._made}"

    @property
    def unit_cents(self) -> int:
        """A wager that the wallet takes, and of which the poorer player can pay twenty."""
        usual_cents = self.observed.wager_cents or _MOST_UNIT_CENTS
        return max(1, min(usual_cents, self.player.opening_cents // PAYS, self.other.opening_cents // PAYS))

    # Any, below: the changes are fields of the class of what is returned.

    def bet(self, player: Player | None = None, wager_cents: int | None = None, **changes: Any) -> BetCalls:
        """Return a new bet with *changes*. Without *player* the first one bets, without *wager_cents* it is a unit."""
        player, bet_id = player or self.player, self.fresh("bet")
        self.playing[player.id] = player
        bet = BetCalls(
            player_id=player.id,
            bet_id=bet_id,
            wager_cents=self.unit_cents if wager_cents is None else wager_cents,
            round_id=f"{bet_id}-round",
            instance_id=self.instance_id,
            game=self.game,
            rollback_tx_id=self.profile.rollback_tx_id,
        )
        self.bets.append(replace(bet, **changes))
        return self.bets[-1]

    def claim(self, amount_cents: int, action: str, player: Player | None = None, **changes: Any) -> DepositCall:
        """Return a new claim, of free bets or a jackpot; raise NotTried if the profile has no such claims."""
        if action not in self.writer.claim_types:
            raise NotTried(f"the profile has no claims of the type {action}")
        player = player or self.player
        self.playing[player.id] = player
        fields = {"bet_id": self.fresh("claim"), "instance_id": self.instance_id, "game": self.game} | changes
        return DepositCall(player_id=player.id, amount_cents=amount_cents, action=action, **fields)

    def jackpots(self, amount_cents: int | None = None, player: Player | None = None) -> list[DepositCall]:
        """Return a jackpot of *amount_cents*, or of a unit, in a list; an empty list if the profile has no jackpots."""
        amount_cents = self.unit_cents if amount_cents is None else amount_cents
        return [self.claim(amount_cents, "JACKPOT", player)] if "JACKPOT" in self.writer.claim_types else []

    def request(self, call: WebhookCall, title: str, *, seal: Seal | None = None) -> Request:
        """Return *call* as the service posts it; the same bytes whenever it is asked for the same call."""
        request = Request(title, f"/{call.operation}", self.writer.encoded(call), seal or Seal())
        self._calls[request.body] = call
        return request

    def call_of(self, body: bytes) -> WebhookCall | None:
        """Return the call that *body* carries; None if a scenario wrote the body itself."""
        return self._calls.get(body)

    def was_at_once(self, body: bytes) -> bool:
        """Return whether *body* was sent together with others."""
        return body in self._at_once

    def kind_of(self, what: Carried | Request) -> str:
        """Return what kind of call a request, or an answer, is of: its path, and whether it is a claim."""
        request = what if isinstance(what, Request) else what.request
        call = self._calls.get(request.body)
        is_claim = isinstance(call, DepositCall) and call.is_claim
        return f"{request.path}, a claim" if is_claim else request.path

    def moved_if_carried_out(self, heard: Carried) -> int:
        """Return by how many cents the call of *heard* moves its player's balance; 0 if a scenario wrote its body."""
        call = self._calls.get(heard.request.body)
        return 0 if call is None else moved_by(call)

    def bet_id_of(self, heard: Carried) -> str:
        """Return the id of the bet that the call of *heard* names; "" if it names none."""
        return getattr(self._calls.get(heard.request.body), "bet_id", None) or ""

    def balance_request(self, title: str, player: Player | None = None, *, seal: Seal | None = None) -> Request:
        """Return a request for the balance of *player*, or of the first."""
        return self.request(BalanceCall(player_id=(player or self.player).id), title, seal=seal)

    def at_another(self, request: Request) -> Request:
        """Return *request* as it goes to another process: at the second address, or by chance over a new connection."""
        if "second_url" in self.supplied:
            return replace(request, title=f"{request.title}, at the second process", at="second")
        return replace(request, title=f"{request.title}, over a new connection", fresh=True)

    # Asking. These do not judge an answer.

    def may_be_unread(self, request: Request) -> bool:
        """
        Return whether SYSTEM_ERROR is right, too: the body is empty or too long (docs/decisions/0013).

        A wallet that does not go by the signature cannot know whether a middleware of its own took an empty one.
        """
        is_batch = request.path in BATCH_PATHS
        most = self.profile.max_batch_bytes if is_batch else self.profile.max_body_bytes
        return not 0 < len(request.body) <= most

    def send(self, request: Request, *, due: str | None = None) -> Carried:
        """
        Send one request, and return its answer.

        One that is answered SYSTEM_ERROR is sent again, as the service would, unless that is the code that is *due*,
        or the wallet may not have read the body.
        """
        heard = first = self._sent_once(request)
        # A wallet that always fails is asked once more, and not three times.
        most = _MOST_AGAIN if self.observed.repeated_in_vain < _MOST_AGAIN else 1
        if request.manner is not Manner.WHOLE or due == Code.SYSTEM_ERROR or self.may_be_unread(request):
            most = 0
        for _ in range(most):
            if heard.code != Code.SYSTEM_ERROR:
                break
            heard = self._sent_once(replace(request, title=f"{request.title}, sent again after SYSTEM_ERROR"))
        if heard is first:
            return heard
        # What is found is found of the call, however often it was sent.
        heard = replace(heard, request=request)
        self._count_again(heard)
        return heard

    def together(self, requests: Sequence[Request]) -> list[Carried]:
        """Send *requests* all at once, and return their answers in order."""
        self._moved = None
        self.told.clear()
        self.observed.movements.clear()
        if len(requests) > 1:
            self._at_once.update(request.body for request in requests)
        heard = self.carry(requests)
        for each in heard:
            self._look_at(each, alone=False)
        return heard

    def _sent_once(self, request: Request) -> Carried:
        (heard,) = self.carry([request])
        if request.path != BALANCE_PATH:
            self._moved = heard
            if getattr(self.call_of(request.body), "player_id", "") in (self.player.id, self.other.id):
                self.observed.movements.append((heard, self.moved_if_carried_out(heard)))
        self._look_at(heard, alone=True)
        return heard

    def _count_again(self, heard: Carried) -> None:
        if heard.code == Code.SYSTEM_ERROR:
            self.observed.repeated_in_vain += 1
            return
        self.observed.failed_at_first += 1
        cents = self.moved_if_carried_out(heard)
        if heard.succeeded and cents:
            self._failed_first.append((cents, heard))

    def _look_at(self, heard: Carried, *, alone: bool) -> None:
        """Look at an answer, whatever it means to the scenario."""
        # Bodies that a scenario wrote itself are mostly changed calls of the first player.
        call = self._calls.get(heard.request.body)
        self.observed.note(heard, self.prefix, self._player_of(heard).id, alone=alone)
        if alone and heard.succeeded and heard.request.path != BALANCE_PATH:
            if call is None:
                self.told.clear()  # A body that a scenario wrote itself.
            elif heard.balance_cents is not None:
                self.told[call.player_id] = heard.balance_cents
        self._check_clock(heard)
        if heard.succeeded:
            self._accepted.add(heard.request.body)
        elif alone and heard.code:
            self._refused.setdefault(heard.request.body, heard)
        self._first_codes.setdefault(heard.request.body, heard.code)
        if heard.timed_out and isinstance(call, WithdrawCall):
            self._in_doubt.append(heard.request)
        if heard.succeeded and call is not None:
            self._note_bets(call)
        if heard.closed is not None:
            self._note_closed(heard, heard.closed)
        if heard.reply is not None and (text := exception_in(heard)):
            told = f"the answer has the text of an exception in it: {shown(text)}"
            self.note(told, Weight.CONTRACT_BROKEN, KnownCause.EXCEPTION, heard)

    def _check_clock(self, heard: Carried) -> None:
        """Note, once in a scenario, a timestamp that is minutes or hours off those of the wallet's other answers."""
        seconds = self.observed.off_clock_seconds(heard)
        if not seconds or any(each.cause == KnownCause.OTHER_CLOCK for each in self.notes):
            return
        told = f"its timestamp is {abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'} the clock of other answers"
        if heard.request.body in self._accepted:
            told += "; that of the first answer to the same call is not"
        self.note(told, Weight.CONTRACT_BROKEN, KnownCause.OTHER_CLOCK, heard)

    def _note_closed(self, heard: Carried, closed: ClosedUnansweredError) -> None:
        """Note that a kept connection was closed; as a mistake if such a one is in use, and no limit explains it."""
        seen, is_busy = self.observed.closed, closed.idle_ms < _IN_USE_MS
        alike = {each.answers for each in seen if (each.idle_ms < _IN_USE_MS) is is_busy}
        seen.append(closed)
        is_by_chance = is_busy and len(alike) == _MANY_NUMBERS - 1 and closed.answers not in alike
        if alike and not is_by_chance:
            return
        told = "the wallet closed a kept connection before one byte of the answer; on a new one it answered. "
        told += f"The answer before, the connection's number {closed.answers}, was {closed.idle_ms:.0f} ms old"
        if is_by_chance:
            told += f"; others were closed so after {', '.join(map(str, sorted(alike)))} answers"
        cause = KnownCause.CLOSED_IN_USE if is_busy else KnownCause.KEPT_CLOSED
        self.note(told, Weight.CONTRACT_BROKEN if is_by_chance else Weight.ADVICE, cause, heard)

    def _note_bets(self, call: WebhookCall) -> None:
        """Note which bet a call has opened or ended that was a SUCCESS."""
        if isinstance(call, WithdrawCall) and call.bet_id not in self._ended:
            self._open[call.bet_id] = call.player_id
        elif (isinstance(call, DepositCall) and not call.is_claim) or isinstance(call, RollbackCall):
            self._ended.add(str(call.bet_id))
            self._open.pop(str(call.bet_id), None)
            self._outlived.update(bet_id for bet_id, player_id in self._open.items() if player_id == call.player_id)

    def ended_with_another(self, heard: Carried) -> bool:
        """Return whether *heard* answers the end of a bet that was open until another bet of its player ended."""
        call = self._calls.get(heard.request.body)
        return isinstance(call, DepositCall | RollbackCall) and str(call.bet_id) in self._outlived - self._ended

    def during(self, begin: str, end: str, requests: Sequence[Request], *arguments: object) -> list[Carried]:
        """
        Send *requests* one by one between the acts *begin* and *end*, and return their answers in order.

        Nothing is judged before the wallet is as it was, and it is as it was whatever happens. Only where the wallet is
        made to fail, SYSTEM_ERROR is what it must answer, and no such call is sent again.
        """
        try:
            self.act(begin, *arguments)
            return [self._sent_once(request) if begin == "fail" else self.send(request) for request in requests]
        finally:
            self.act(end, *arguments)

    def note(
        self,
        reason: str,
        weight: Weight,
        cause: str = "",
        heard: Carried | None = None,
        *,
        symptom: Symptom | None = None,
    ) -> None:
        """Note that something is wrong, as *heard* shows, and go on."""
        reason = reason if heard is None else f"{heard.request.title}: {reason}"
        self.notes.append(Note(reason, weight, cause, None if heard is None else heard.place, symptom))

    def advise(self, reason: str, heard: Carried | None = None) -> None:
        """Note that something could be better."""
        self.note(reason, Weight.ADVICE, "", heard)

    def _player_of(self, what: Asked | Carried) -> Player:
        """Return the player of a call, or of the call of an answer; the first one if it names none that is known."""
        if isinstance(what, Carried):
            what = self._calls.get(what.request.body, what.request)
        players = {self.other.id: self.other, **self.playing}
        return self.player if isinstance(what, Request) else players.get(what.player_id, self.player)
