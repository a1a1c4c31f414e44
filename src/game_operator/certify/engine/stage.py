"""
The stage of one scenario: two players, and ways to make calls, to ask and to judge.

What it asks travels by a function of the run's, so that no scenario knows how its calls travel.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

from game_operator.certify.engine.steps import Found, NotTried, symptom_of
from game_operator.certify.engine.supplies import Supplies
from game_operator.certify.report.verdicts import TURNING_AWAY, KnownCause, Note, Weight
from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import BalanceCall, DepositCall, RollbackCall, WebhookCall, WithdrawCall
from game_operator.money import FINER_THAN_A_CENT, amount_from_cents
from game_operator.profile import Profile
from game_operator.protocol.http import Manner
from game_operator.protocol.webhook import BodyWriter
from game_operator.protocol.webhook_reply import fold_code
from game_operator.provider.delivery import Carried, Finality, finality, is_definite
from game_operator.provider.requests import BetCalls, Request, Seal

#: A call, or a request with its own title.
Asked: TypeAlias = WebhookCall | Request
#: Scenarios move whole balances, and an amount ends at 10^15 cents (docs/decisions/0010).
MOST_BALANCE_CENTS: Final = 10**14
_WITHDRAW: Final = "/withdraw"
#: What a refusal says of the wallet as a whole, by path and code.
_CAUSES: Final[Mapping[tuple[str, str | None], str]] = {
    ("", Code.SYSTEM_ERROR): KnownCause.FAILS,
    (_WITHDRAW, Code.INVALID_REQUEST): KnownCause.UNREADABLE,
}
_KNOWN: Final = frozenset(code.value for code in Code)
_MOST_REPEATS: Final = 4
_MOST_UNIT_CENTS: Final = 500


def units(cents: int) -> str:
    """Return *cents* as a report shows them: in currency units, with two decimals."""
    return f"{amount_from_cents(cents):.2f}"


def moved_by(what: Asked) -> int:
    """Return what a call does to its player's balance if it does what it says; 0 for a request."""
    if isinstance(what, WithdrawCall):
        return -what.amount_cents
    return (what.amount_cents or 0) if isinstance(what, DepositCall | RollbackCall) else 0


def time_of(heard: Carried) -> int:
    """Return the timestamp of a reply; 0 if the reply has no timestamp, as some refusals."""
    return 0 if heard.reply is None else heard.reply.timestamp or 0


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
class Stage:
    """
    What a scenario has.

    Attributes:
        player, other: Two players with money.
        profile: What is assumed of the wallet.
        prefix: What all ids begin with.
        instance_id: The instance that is played.
        carry: Brings requests to the wallet, all at once if there are several, and returns their answers in order.
        act: Does something to the wallet that was supplied (``Supplies``): its name, and what it is given.
        supplied: The names of what the user supplied (``Supplies``), and ``wire`` if calls travel over HTTP.
        supplies: What was supplied; what it does to the wallet is done by ``act``.
        notes: What is wrong and did not end the scenario.
        playing: The players of the bets and claims that have been made, by their ids.
        bets: The bets that have been made.
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
    notes: list[Note] = field(default_factory=list, init=False)
    playing: dict[str, Player] = field(default_factory=dict, init=False)
    bets: list[BetCalls] = field(default_factory=list, init=False)
    _made: int = field(default=0, init=False)
    # The last call that may have moved money, if it was alone; and the last balance.
    _moved: Carried | None = field(default=None, init=False)
    _balance: Carried | None = field(default=None, init=False)

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
        """A wager of which the poorer player can pay twenty."""
        return max(1, min(_MOST_UNIT_CENTS, self.player.opening_cents // 20, self.other.opening_cents // 20))

    # Any, below: the changes are fields of the class of what is returned.

    def bet(self, player: Player | None = None, cents: int | None = None, **changes: Any) -> BetCalls:
        """Return a new bet, with *changes*; of *player*, or of the first; of *cents*, or of a unit."""
        player, bet_id = player or self.player, self.fresh("bet")
        self.playing[player.id] = player
        bet = BetCalls(
            player_id=player.id,
            bet_id=bet_id,
            wager_cents=self.unit_cents if cents is None else cents,
            round_id=f"{bet_id}-round",
            instance_id=self.instance_id,
            game="certify",
            rollback_tx_id=self.profile.rollback_tx_id,
        )
        self.bets.append(replace(bet, **changes))
        return self.bets[-1]

    def claim(self, cents: int, action: str, player: Player | None = None, **changes: Any) -> DepositCall:
        """Return a new claim, of free bets or a jackpot; raise NotTried if the profile has no such claims."""
        if action not in self.writer.claim_types:
            raise NotTried(f"the profile has no claims of the type {action}")
        player = player or self.player
        self.playing[player.id] = player
        fields = {"bet_id": self.fresh("claim"), "instance_id": self.instance_id, "game": "certify"} | changes
        return DepositCall(player_id=player.id, amount_cents=cents, action=action, **fields)

    def jackpots(self, cents: int | None = None, player: Player | None = None) -> list[DepositCall]:
        """Return a jackpot of *cents*, or of a unit, in a list; an empty list if the profile has no jackpots."""
        cents = self.unit_cents if cents is None else cents
        return [self.claim(cents, "JACKPOT", player)] if "JACKPOT" in self.writer.claim_types else []

    def request(self, call: WebhookCall, title: str, *, seal: Seal | None = None) -> Request:
        """Return *call* as the service posts it; the same bytes whenever it is asked for the same call."""
        return Request(title, f"/{call.operation}", self.writer.encoded(call), seal or Seal())

    def balance_request(self, title: str, player: Player | None = None, *, seal: Seal | None = None) -> Request:
        """Return a request for the balance of *player*, or of the first."""
        return self.request(BalanceCall(player_id=(player or self.player).id), title, seal=seal)

    # Asking. These do not judge an answer.

    def send(self, request: Request) -> Carried:
        """Send one request, and return its answer."""
        (heard,) = self.carry([request])
        if request.path != "/player-balance":
            self._moved = heard
        return heard

    def together(self, requests: Sequence[Request]) -> list[Carried]:
        """Send *requests* all at once, and return their answers in order."""
        self._moved = None
        return self.carry(requests)

    def during(self, begin: str, end: str, requests: Sequence[Request], *arguments: object) -> list[Carried]:
        """
        Send *requests* one by one between the acts *begin* and *end*, and return their answers in order.

        A finding ends a scenario, so nothing is judged before the wallet is as it was.
        """
        self.act(begin, *arguments)
        heard = [self.send(request) for request in requests]
        self.act(end, *arguments)
        return heard

    # Asking and judging. What is wrong ends the scenario by Found, or is noted if the scenario can go on.

    def ask(self, what: Asked, title: str = "", *, status: int = 200) -> Carried:
        """Send *what*, and hold that a reply of spec §2.1 came, with HTTP status *status* (spec §4.1)."""
        heard = self.send(what if isinstance(what, Request) else self.request(what, title))
        self.check_reply(heard, status=status)
        return heard

    def accepts(self, what: Asked, title: str = "", *, moves: int | None = None, may_limit: bool = False) -> Carried:
        """
        Hold that *what* is answered SUCCESS with the balance that is due once it moved *moves* cents.

        Args:
            what: A call, or a request.
            title: What a report calls it.
            moves: What becomes of the balance, below 0 for a debit; None for what the call says, 0 for a request.
            may_limit: Whether a limit of the wallet may refuse it. Then this scenario is not tried.
        """
        heard = self.ask(what, title)
        self.check_unlimited(heard, asked=may_limit)
        moves = moved_by(what) if moves is None else moves
        self.check_moved(heard, self._player_of(what), moves)
        return heard

    def placed(self, *bets: BetCalls, title: str = "a withdraw") -> BetCalls:
        """Place *bets*, or a new one, and return the first."""
        bets = bets or (self.bet(),)
        for bet in bets:
            self.accepts(bet.withdraw(), title)
        return bets[0]

    def again(self, what: Asked, first: Carried, title: str) -> Carried:
        """
        Hold that a known call is answered as it was at *first*, moving nothing.

        It returns the current balance, or word for word the first answer (docs/decisions/0012).
        """
        heard = self.ask(what, title)
        if heard.succeeded != first.succeeded:
            told = f"returned {heard.code or 'SUCCESS'}; the first time it returned {first.code or 'SUCCESS'}"
            raise Found(told, heard, symptom=symptom_of(heard, "changed"))
        if heard.code != first.code:
            self.advise(f"refused with {heard.code}; the first time with {first.code}", heard)
        if heard.reply is not None and heard.reply != first.reply:
            self.check_balance(heard, self._player_of(what))
        return heard

    def refuses(
        self,
        what: Asked,
        title: str,
        code: str,
        *,
        success_is_advice: bool = False,
        final_code_is_advice: bool = False,
        status: int = 200,
    ) -> Carried:
        """
        Hold that *what* is refused, that nothing moves, and that the code says what *code* says.

        Another code of the same kind is advice, because the specification has no list (spec §7.1). One after which the
        service gives up a payment that it should send again is lost money.

        Args:
            what: A call, or a request.
            title: What a report calls it.
            code: The code that is assumed, as the profile with the extended codes has it.
            success_is_advice: Whether a SUCCESS that moves nothing is advice, because it does no harm.
            final_code_is_advice: Whether a code after which it is never sent again is advice, because another scenario
                judges that.
            status: The HTTP status that is due.
        """
        heard = self.ask(what, title, status=status)
        who = self._player_of(what)
        if heard.succeeded:
            self._accepted_wrongly(heard, who, code, sound=success_is_advice)
            return heard
        self.check_code(heard, code, final_code_is_advice=final_code_is_advice)
        self.check_balance(heard, who)
        return heard

    def answered(self, requests: Sequence[Request]) -> list[Carried]:
        """
        Send *requests* all at once, hold that each is answered by a reply, and return the answers in order.

        What was answered SYSTEM_ERROR is sent again, as the service would; that it was needed is advice.
        """
        heard = self.together(requests)
        failed = 0
        for place, each in enumerate(heard):
            self.check_reply(each)
            if each.code == Code.SYSTEM_ERROR:
                failed += 1
                heard[place] = self.insisted(each.request)
        if failed:
            told = f"{failed} of {len(requests)} calls at once returned SYSTEM_ERROR, and were sent again"
            self.note(told, Weight.ADVICE, "SYSTEM_ERROR where many call at once")
        return heard

    def is_unanswered(self, heard: Carried) -> bool:
        """Return whether the service cannot know what became of the call, or knows that it must come again."""
        operation, early_code = heard.request.path.strip("/"), self.profile.early_deposit_code
        return heard.reply is None or not is_definite(operation, heard.code, early_code=early_code)

    def insisted(self, request: Request) -> Carried:
        """Send *request* again, whole, a few times at most, until an answer is final; hold that it is a reply."""
        again = replace(request, title=f"{request.title}, again", manner=Manner.WHOLE)
        for _ in range(_MOST_REPEATS):
            heard = self.send(again)
            if not self.is_unanswered(heard):
                break
        self.check_reply(heard)
        return heard

    def refunded(self, bets: Sequence[BetCalls]) -> None:
        """Roll *bets* back, all at once, and hold that each is refunded."""
        heard = self.answered([self.request(bet.rollback(), "one of many rollbacks at once") for bet in bets])
        for bet, each in zip(bets, heard, strict=True):
            self.check_success(each)
            self.playing[bet.player_id].due_cents += bet.wager_cents

    # Judging an answer.

    def check_reply(self, heard: Carried, *, status: int = 200) -> None:
        """Hold that *heard* is a reply of spec §2.1; note another HTTP status than *status* (spec §4.1)."""
        if not heard.status:
            raise Found(heard.problem, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.NO_ANSWER)
        if heard.reply is None:
            told = f"answered HTTP {heard.status}, which is not a reply of spec §2.1: {heard.problem}"
            if heard.status in TURNING_AWAY:
                cause = KnownCause.TURNED_AWAY
            elif heard.status >= 500:
                cause = KnownCause.CRASH
            else:
                cause = KnownCause.FRACTIONS if FINER_THAN_A_CENT in heard.problem else KnownCause.NO_REPLY
                if not heard.body.lstrip().startswith((b"{", b"[")):
                    # A page, or nothing: another part of the application may answer at this address.
                    told += (
                        ". Check the address: /withdraw and the others must be below it, perhaps after a prefix such "
                        "as /wallet"
                    )
            raise Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=cause)
        if heard.status != status:
            kind = "a SUCCESS" if heard.succeeded else f"the refusal {heard.code}"
            # The specification asks for 200 always, so a 200 is only worth advice where the profile expects another.
            weight = Weight.ADVICE if heard.status == 200 else Weight.CONTRACT_BROKEN
            told = f"answered {kind} with HTTP {heard.status}, and it must be {status}"
            self.note(told, weight, f"{KnownCause.STATUS} {heard.status}", heard)

    def check_unlimited(self, heard: Carried, *, asked: bool) -> None:
        """Raise NotTried if a limit refused a withdraw; if one was *asked* for, an unknown code says so too."""
        if heard.code is None or heard.request.path != _WITHDRAW:
            return
        own = heard.code not in _KNOWN or heard.code == fold_code(Code.LIMIT_EXCEEDED, self.profile)
        if heard.code == Code.LIMIT_EXCEEDED or (asked and own):
            raise NotTried(f"the wallet limits wagers: {heard.request.title} was refused with {heard.code}")

    def check_moved(self, heard: Carried, player: Player, moves: int) -> None:
        """Hold that it is a SUCCESS with the balance that is due once *moves* cents have moved."""
        self.check_success(heard)
        player.due_cents += moves
        self.check_balance(heard, player)

    def check_success(self, heard: Carried, weight: Weight | None = None) -> None:
        """Hold that it is a SUCCESS; otherwise it costs *weight*, or what the scenario says."""
        if not heard.succeeded:
            cause = _CAUSES.get((heard.request.path, heard.code)) or _CAUSES.get(("", heard.code), "")
            raise Found(f"refused with {heard.code} instead of SUCCESS", heard, weight=weight, cause=cause)

    def check_refused(self, heard: Carried, code: str, weight: Weight | None = None) -> None:
        """Hold that it is a refusal that says what *code* says; a SUCCESS costs *weight*, or what the scenario says."""
        if heard.succeeded:
            symptom = _accepted_symptom(heard, code)
            raise Found(f"returned SUCCESS instead of {code}", heard, weight=weight, symptom=symptom)
        self.check_code(heard, code)

    def check_code(self, heard: Carried, code: str, *, final_code_is_advice: bool = False) -> None:
        """Hold that the code of a refusal lets the service conclude what *code* would."""
        assert heard.code is not None
        operation, due = heard.request.path.strip("/"), fold_code(code, self.profile)
        if heard.code == due or (due == Code.INSUFFICIENT_BALANCE and heard.code == Code.LIMIT_EXCEEDED):
            return  # A limit may be asked before the funds.
        told = f"refused with {heard.code}; {due} is assumed"
        early_code = self.profile.early_deposit_code
        due_is, is_ = (finality(operation, each, early_code=early_code) for each in (due, heard.code))
        if due_is is not Finality.FINAL and is_ is Finality.FINAL:
            # A bet that is never placed costs nobody anything.
            harmless = final_code_is_advice or heard.request.path == _WITHDRAW
            weight = Weight.ADVICE if harmless else Weight.MONEY_LOST
            told += "; the service takes this for final and never sends it again"
            self.note(told, weight, "", heard, symptom=symptom_of(heard, heard.code))
            return
        if due_is is Finality.FINAL and is_ is not Finality.FINAL:
            told += "; the service may send it again for hours"
        self.note(told, Weight.ADVICE, KnownCause.OTHER_CODES, heard)

    def check_balance(self, heard: Carried, player: Player) -> None:
        """Hold that the balance in *heard*, if any, is the one that is due; if not, find out which is wrong."""
        told = heard.balance_cents
        if told is None or told == player.due_cents:
            return
        self.check_balances(player, after=heard)
        reason = f"returned a balance of {units(told)}; expected {units(player.due_cents)}"
        self.note(reason, Weight.CONTRACT_BROKEN, KnownCause.WRONG_BALANCE, heard)

    def check_balances(self, *players: Player, after: Carried | None = None) -> None:
        """Hold, by a player-balance, that each of *players* (both, if none is named) has what is due."""
        for player in players or (self.player, self.other):
            actual, due = self.balance_of(player), player.due_cents
            if actual == due:
                continue
            much = "too much" if actual > due else "too little"
            since = f"after {after.request.title}, " if after else ""
            reason = f"{since}{player.id} has {units(actual)}; expected {units(due)}: {units(abs(actual - due))} {much}"
            cause = KnownCause.SHARED if player is self.other and player.id not in self.playing else ""
            shown_by = after or self._moved or self._balance
            symptom = symptom_of(shown_by, much) if shown_by else ""
            raise Found(reason, cause=cause, place=shown_by.place if shown_by else None, symptom=symptom)

    def balance_of(self, player: Player) -> int:
        """Return a player's balance in cents."""
        heard = self.ask(BalanceCall(player_id=player.id), f"the balance of {player.id}")
        self._balance = heard
        if heard.balance_cents is None or not heard.succeeded:
            told = f"refused with {heard.code} instead of a balance"
            raise Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.NO_BALANCE)
        if heard.balance_cents > MOST_BALANCE_CENTS:
            told = f"returned {units(heard.balance_cents)}, which no call could move"
            raise Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.WRONG_BALANCE)
        return heard.balance_cents

    def note(
        self, reason: str, weight: Weight, cause: str = "", heard: Carried | None = None, *, symptom: str = ""
    ) -> None:
        """Note that something is wrong, as *heard* shows, and go on."""
        reason = reason if heard is None else f"{heard.request.title}: {reason}"
        self.notes.append(Note(reason, weight, cause, None if heard is None else heard.place, symptom))

    def advise(self, reason: str, heard: Carried | None = None) -> None:
        """Note that something could be better."""
        self.note(reason, Weight.ADVICE, "", heard)

    def _player_of(self, what: Asked) -> Player:
        """Return the player that a call names; the first one for a request, or if nobody has that id."""
        players = {self.other.id: self.other, **self.playing}
        return self.player if isinstance(what, Request) else players.get(what.player_id, self.player)

    def _accepted_wrongly(self, heard: Carried, player: Player, code: str, *, sound: bool) -> None:
        actual = self.balance_of(player)
        moved, due = actual - player.due_cents, fold_code(code, self.profile)
        if sound and not moved:
            told = f"returned SUCCESS without moving money; {due} is assumed, and no harm is done"
            self.note(told, Weight.ADVICE, KnownCause.STEADY, heard)
            return
        what = "nothing moved, although the service believes it did"
        if moved:
            what = f"the balance moved by {'+' if moved > 0 else '-'}{units(abs(moved))}"
        symptom = _accepted_symptom(heard, code)
        raise Found(f"returned SUCCESS instead of {due}; {what}", heard, symptom=symptom)


def _accepted_symptom(heard: Carried, code: str) -> str:
    # A wallet that checks no signature accepts every operation.
    what = f"accepted instead of {code}"
    return what if code == Code.INVALID_SIGNATURE else symptom_of(heard, what)
