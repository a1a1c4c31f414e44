"""Plays scenarios against a wallet, one after the other, and makes a verdict of each."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import BalanceCall
from game_operator.profile import Profile
from game_operator.protocol.http import pairs_of
from game_operator.protocol.webhook import BodyWriter
from game_operator_testkit.certifier.engine.balances import MOST_BALANCE_CENTS, units
from game_operator_testkit.certifier.engine.calls import Player
from game_operator_testkit.certifier.engine.chance import (
    LOOKS_SILENT,
    LOOKS_SO,
    LOOKS_UNLUCKY,
    is_lone_repeat,
    look_again,
    look_for_chance,
    look_for_luck,
)
from game_operator_testkit.certifier.engine.limits import find_wager
from game_operator_testkit.certifier.engine.observed import Observed
from game_operator_testkit.certifier.engine.scenario import LOAD, STAGES, Scenario, verdict_of
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Allowance, Found, Limited, NotTried, undone_by_errors
from game_operator_testkit.certifier.engine.supplies import UNDONE_BY, Supplies, at_hand, missing_told
from game_operator_testkit.certifier.report.again import signer_of, without_signatures
from game_operator_testkit.certifier.report.report import Latency
from game_operator_testkit.certifier.report.verdicts import Exchange, KnownCause, Note, Outcome, Verdict, Weight
from game_operator_testkit.provider.delivery import Carried, reply_in
from game_operator_testkit.provider.http import HttpCarrier
from game_operator_testkit.provider.in_process import InProcessCarrier, WrongReplyError
from game_operator_testkit.provider.requests import AS_THE_SERVICE, Request, Seal

#: So many exchanges are kept from the beginning of a scenario and from its end.
_FIRST, _LAST = 40, 120
#: How much of a body is kept.
_KEPT_BYTES: Final = 65_536
#: And of an answer, of which a reply has some hundred.
_KEPT_ANSWER_BYTES: Final = 4_096
#: After this many scenarios in a row without an answer, the wallet counts as gone.
_MOST_SILENT: Final = 3
_SILENT: Final = frozenset({KnownCause.NO_ANSWER, KnownCause.GONE})
#: Before that it is asked again after each of these pauses.
_PAUSES_SECONDS: Final = (0.5, 1.0, 2.0)
#: To bring balances back, even if no time is left.
_GRACE_SECONDS: Final = 10.0
#: With less a player cannot pay for twenty bets.
_LEAST_CENTS: Final = 20
#: So often a balance is asked for that is answered SYSTEM_ERROR, or by such a status or above, which may be by chance.
_MOST_FAILURES: Final = 3
_FAILED_STATUS: Final = 500
#: In wagers: what balances may gain or lose before they are put back.
_MOST_DRIFT: Final = 40
#: So often a scenario must pass if what it found is to be a matter of chance; of these stages, and not if its ids are
#: the same each time, or its calls come at once.
_AGAIN: Final = 2
_REPLAYED: Final = (STAGES[0], STAGES[2])
_ONCE: Final = ("F13", "H05")
#: Of what a player is owed, too little is not doubled.
_SHORT: Final = ("/deposit too little", "/rollback too little")
#: In place of the value of a header that the user added.
_HIDDEN: Final = "…".encode()


@dataclass(frozen=True, slots=True)
class _Begun:
    """The beginning of a scenario: its stage, the exchanges that are kept, and why it ended early, if it did."""

    stage: Stage
    kept: dict[int, Exchange]
    ended: Found | NotTried | None


@dataclass(kw_only=True, eq=False, repr=False)
class Run:
    """
    A certification under way.

    Attributes:
        carrier: Signs requests and brings them to the wallet.
        profile: What is assumed of the wallet.
        player_ids: Both players.
        supplies: What more can be done to the wallet.
        run_id: What all ids begin with.
        instance_id: The instance that is played.
        allowance: How long the run may take, and whether it goes on.
        shown_headers: Names of the headers that the user added, for the report.
        game: The name of the game that is played.
        observed: What has been seen of the wallet.
        known: Both balances in cents, as the last scenario left them; None if one must be asked for.
        calls: How many requests were sent.
    """

    carrier: HttpCarrier | InProcessCarrier
    profile: Profile
    player_ids: tuple[str, str]
    supplies: Supplies
    run_id: str
    instance_id: str | None
    allowance: Allowance
    shown_headers: tuple[bytes, ...] = ()
    game: str = "certify"
    observed: Observed = field(default_factory=Observed)
    known: dict[str, int | None] = field(init=False)
    calls: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.known = dict.fromkeys(self.player_ids)
        self._supplied = at_hand(self.supplies, self.profile, on_wire=self.carrier.on_wire)
        self._to_undo: list[tuple[str, tuple[object, ...]]] = []
        self._silent = 0
        #: The exchanges of the scenario that are kept, by their places among all of them.
        self._kept: dict[int, Exchange] = {}
        self._is_load = False
        self._load_ms: list[float] = []
        self._load_at_once = 0
        self._begun: dict[str, _Begun] = {}
        #: Both balances in cents, as the first scenario found them.
        self._at_first: dict[str, int] = {}

    def play(self, scenario: Scenario) -> Verdict:
        """
        Play *scenario* and return its verdict. Nothing that the wallet does raises.

        Raises:
            WrongReplyError: The function that stands for the wallet returns no reply.
        """
        if missing := tuple(name for name in scenario.needs if name not in self._supplied):
            return replace(verdict_of(scenario, [], {}, NotTried(missing_told(missing))), missing=missing)
        is_gone = self._is_gone()
        self._kept, began = {}, time.monotonic()
        self._is_load = scenario.stage == LOAD
        verdict = self._played(scenario, is_gone=is_gone)
        return replace(verdict, duration_ms=(time.monotonic() - began) * 1_000)

    def begin(self, scenario: Scenario) -> None:
        """Play what *scenario* does before all others; what is wrong then is in its verdict later."""
        if scenario.begin is None or any(name not in self._supplied for name in scenario.needs):
            return
        self._kept, ended, stage = {}, None, self._stage(scenario.id)
        try:
            stage = self._within_limits(scenario.id, scenario.begin, self._staged(scenario.id))
            stage.check_balances()
        except (Found, NotTried) as end:
            ended = end
        except WrongReplyError:
            raise
        except Exception as odd:  # As below.
            ended = Found(_stumbled(odd), weight=Weight.CONTRACT_BROKEN)
        self._begun[scenario.id] = _Begun(stage, self._kept, ended)
        self.known = dict.fromkeys(self.player_ids)
        if ended is not None:
            self._kept = {}
            self._restored(stage)

    def balance_of(
        self, player_id: str, at: Literal["wallet", "second"] = "wallet", seal: Seal = AS_THE_SERVICE
    ) -> Carried:
        """Ask one of the wallet's processes for a player's balance, outside any scenario."""
        self._kept = {}
        body = BodyWriter(self.profile).encoded(BalanceCall(player_id=player_id))
        request = Request(f"the balance of {player_id}", "/player-balance", body, seal, at=at)
        for _ in range(_MOST_FAILURES):
            (heard,) = self._heard((request,))
            if heard.code != WebhookErrorCode.SYSTEM_ERROR and heard.status < _FAILED_STATUS:
                break
        return heard

    def balances(self) -> list[int | None]:
        """Return both balances in cents, None where one cannot be read; by small bets if player-balance is behind."""
        if self.observed.is_behind:
            self._kept, stage = {}, self._stage("balances")
            with self.allowance.grace(_GRACE_SECONDS):
                return [current_cents(stage, player) for player in (stage.player, stage.other)]
        balances: list[int | None] = []
        for player_id in self.player_ids:
            heard = self.balance_of(player_id)
            balances.append(heard.balance_cents if heard.succeeded else None)
            if heard.timed_out:  # One timeout is enough: the other player's balance would time out too.
                break
        return balances + [None] * (len(self.player_ids) - len(balances))

    def latency(self, seconds: float) -> Latency | None:
        """Return how long the answers of the load phase took, which lasted *seconds*; None if there was none."""
        return Latency(tuple(self._load_ms), seconds, self._load_at_once) if self._load_ms else None

    def put_back(self, before: list[int | None]) -> None:
        """Bring both balances to what they were *before* the run, if that is known and the wallet lets us."""
        self._kept, stage = {}, self._stage("end")
        self._at_first = {}
        for player, cents in zip((stage.player, stage.other), before, strict=True):
            if cents is None:
                return
            player.opening_cents = cents
        self._restored(stage)

    def _played(self, scenario: Scenario, *, is_gone: bool) -> Verdict:
        notes: list[Note] = []
        stage: Stage | None = None
        found: Found | None = None
        cut: NotTried | None = None
        stuck: list[str] = []
        try:
            begun = self._begun.get(scenario.id)
            if is_gone and (begun is None or begun.ended is None):
                told = f"not begun: the wallet gave no answer in the last {_MOST_SILENT} scenarios"
                raise Found(told, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.NO_ANSWER)
            self.allowance.check("not begun")
            stage = self._begun_or_staged(scenario)
            notes = stage.notes
            try:
                stage = self._within_limits(scenario.id, scenario.play, stage)
                notes = stage.notes
                stage.check_balances()
            finally:
                stuck = self._undo()
        except NotTried as why:
            cut = why
        except Found as end:
            found = end
        except WrongReplyError:  # It says nothing of the wallet.
            raise
        except Exception as odd:  # An answer that was not foreseen still needs a verdict.
            notes.append(Note(_stumbled(odd), Weight.CONTRACT_BROKEN))
        if found is not None:
            notes.append(self._note_of(found, scenario, stage))
        verdict = verdict_of(scenario, notes, self._kept, cut)
        if stuck:
            reasons = (verdict.reason, *(each for each in stuck if each not in verdict.reason))
            is_undone = verdict.outcome is Outcome.SKIPPED
            verdict = replace(verdict, reason="; ".join(filter(None, reasons)), is_undone=is_undone)
        self._settle(stage, verdict)
        return verdict

    def _note_of(self, found: Found, scenario: Scenario, stage: Stage | None) -> Note:
        """Return what *found* says of the wallet, after a look at whether it happens by chance."""
        if stage is not None:
            # The tries that show it are not among the exchanges.
            kept, self._kept = self._kept, {}
            self._look_for_chance(found, scenario, stage, kept)
            self._kept = kept
        usual = scenario.weight
        if not usual.is_money and not found.is_refusal and found.symptom:
            usual, found.cause = Weight.MONEY_LOST, found.cause or KnownCause.OFF
        usual = Weight.CONTRACT_BROKEN if usual is Weight.ADVICE else usual
        if found.symptom in _SHORT:
            usual = Weight.MONEY_LOST
        if found.is_refusal and usual is Weight.MONEY_DOUBLED:
            usual = Weight.MONEY_LOST
        return Note(found.reason, found.weight or usual, found.cause, found.place, found.symptom)

    def _look_for_chance(self, found: Found, scenario: Scenario, stage: Stage, kept: Mapping[int, Exchange]) -> None:
        """Let *found* say so if it happens by chance, as the call again, others like it or the scenario again show."""
        if scenario.needs or self.observed.is_gone:
            return  # What was done to the wallet has been undone.
        was_silent = False
        with suppress(Found, NotTried):
            was_silent = look_again(stage, found, kept, under_load=scenario.stage == LOAD)
        if not was_silent and found.cause not in LOOKS_UNLUCKY | LOOKS_SO:
            return
        self._restored(stage)
        for causes, look in ((LOOKS_UNLUCKY, look_for_luck), (LOOKS_SO, look_for_chance)):
            with suppress(Found, NotTried):
                if found.cause in causes:
                    look(stage, found, kept)
        is_lone = found.cause in LOOKS_SO and is_lone_repeat(stage, found, kept)
        is_open = not found.cause or (was_silent and found.cause in LOOKS_SILENT)
        if (is_lone or is_open) and self._passes_again(scenario, stage):
            found.reason += ". Played again, it passed: this happens by chance"
            found.cause = KnownCause.NOW_AND_THEN if was_silent else KnownCause.AT_TIMES
            found.cause = KnownCause.NOT_KEPT if is_lone else found.cause

    def _passes_again(self, scenario: Scenario, stage: Stage) -> bool:
        """Return whether *scenario* passes a few times more, where that says something."""
        is_plain = scenario.stage in _REPLAYED and not scenario.needs and scenario.id not in _ONCE
        if not is_plain or self.observed.is_slow or self.observed.unjudged or self.observed.late_seconds:
            return False
        self._restored(stage)
        self.known = dict.fromkeys(self.player_ids)
        with suppress(Found, NotTried):
            for again in range(_AGAIN):
                stage = self._staged(f"{scenario.id}-again-{again}")
                opening = {each.id: each.opening_cents for each in (stage.player, stage.other)}
                if not again and opening != self._at_first:
                    return False  # What was found before has left its mark.
                scenario.play(stage)
                stage.check_balances()
            return True
        return False

    def _begun_or_staged(self, scenario: Scenario) -> Stage:
        """Return the stage that the beginning of *scenario* was played on, or a new one."""
        begun = self._begun.get(scenario.id)
        if begun is None:
            return self._staged(scenario.id)
        self._kept = begun.kept
        if begun.ended is not None:
            raise begun.ended
        for player in (begun.stage.player, begun.stage.other):
            player.opening_cents = player.due_cents = begun.stage.opening_cents_of(player)
            _check_can_bet(player)
        begun.stage.told.clear()
        return begun.stage

    def _within_limits(self, name: str, play: Callable[[Stage], object], stage: Stage) -> Stage:
        """*play* on *stage*, and on a new one with another wager if a limit refused it; return the last stage."""
        try:
            play(stage)
        except Limited:
            if self.observed.is_limited:
                raise
            find_wager(stage)
            if self.observed.wager_cents is None:
                raise
            self._restored(stage)
            self.known = dict.fromkeys(self.player_ids)
            stage = self._staged(f"{name}-within-limits")
            play(stage)
        return stage

    def _settle(self, stage: Stage | None, verdict: Verdict) -> None:
        """Remember balances that are known, and put them back if they are not, or far from what they were."""
        self.known = dict.fromkeys(self.player_ids)
        if stage is None:
            self._silent = self._silent + 1 if any(note.cause in _SILENT for note in verdict.notes) else 0
            return
        players = (stage.player, stage.other)
        for player in players:
            self._at_first.setdefault(player.id, player.opening_cents)
        drift = max(abs(player.due_cents - self._at_first[player.id]) for player in players)
        if verdict.outcome is Outcome.PASSED and drift <= _MOST_DRIFT * stage.unit_cents:
            self.known = {player.id: player.due_cents for player in players}
            self._silent = 0
            return
        self._kept = {}
        self._restored(stage)
        # Calls that go unanswered in a crowd are one thing, and a wallet that is gone another.
        answered = any(exchange.status for exchange in self._kept.values())
        self._silent = 0 if answered else self._silent + 1

    def _restored(self, stage: Stage) -> None:
        """Bring balances back. There is always a little time for it, because the players' money depends on it."""
        for player in (stage.player, stage.other):
            player.opening_cents = self._at_first.get(player.id, player.opening_cents)
        with suppress(Found), self.allowance.grace(_GRACE_SECONDS):  # The report says what was left.
            put_back(stage)

    def _staged(self, name: str) -> Stage:
        stage = self._stage(name)
        for player in (stage.player, stage.other):
            if self.known[player.id] is None:
                player.opening_cents = player.due_cents = stage.opening_cents_of(player)
            _check_can_bet(player)
        return stage

    def _stage(self, name: str) -> Stage:
        player, other = (Player(player_id, cents or 0, cents or 0) for player_id, cents in self.known.items())
        return Stage(
            player=player,
            other=other,
            carry=self._carry,
            act=self._act,
            profile=replace(self.profile, fields={**self.profile.fields, **self.observed.reads}),
            prefix=f"{self.run_id}-{name}",
            instance_id=self.instance_id,
            supplied=self._supplied,
            supplies=self.supplies,
            game=self.game,
            observed=self.observed,
            pause=self._pause,
        )

    def _pause(self, seconds: float) -> None:
        self.allowance.check("broken off")
        time.sleep(seconds)

    def _is_gone(self) -> bool:
        """Return whether the wallet no longer answers; one that restarts is given a few seconds, once."""
        # Its verdict is counted as silent again, so the pauses are made once.
        pauses = _PAUSES_SECONDS if self._silent == _MOST_SILENT and self.carrier.on_wire else ()
        for seconds in pauses:
            if self.allowance.is_stopping:
                break
            time.sleep(seconds)
            if any(cents is not None for cents in self.balances()):
                self._silent = 0
                break
        return self._silent >= _MOST_SILENT and not self.allowance.is_stopping

    def _carry(self, requests: Sequence[Request]) -> list[Carried]:
        self.allowance.check("broken off")
        return self._heard(requests)

    def _act(self, what: str, *arguments: object) -> None:
        """Do to the wallet what a scenario asks for; raise ``Undone`` if it does not work."""
        self.allowance.check("broken off")
        undone_by = UNDONE_BY.get(what, "")
        if getattr(self.supplies, undone_by, None) is not None:
            self._to_undo.append((undone_by, arguments))
        with undone_by_errors(f"{what} could not be done"):
            getattr(self.supplies, what)(*arguments)
        with suppress(ValueError):
            self._to_undo.remove((what, arguments))

    def _undo(self) -> list[str]:
        """Undo what a scenario did to the wallet, if it was broken off before it could; return what did not work."""
        stuck = []
        while self._to_undo:
            what, arguments = self._to_undo.pop()
            try:
                getattr(self.supplies, what)(*arguments)
            except Exception as failed:  # The user's own code may raise anything.
                reason = str(failed) if isinstance(failed, NotTried) else f"{type(failed).__name__}: {failed}"
                stuck.append(f"{what} could not be done: {reason}")
        return stuck

    def _heard(self, requests: Sequence[Request]) -> list[Carried]:
        carried = self.carrier.carry(requests)
        self.calls += len(requests)
        if self._is_load and len(requests) > 1:
            self._load_ms += (each.elapsed_ms for each in carried)
            self._load_at_once = max(self._load_at_once, len(requests))
        return [self._recorded(each) for each in carried]

    def _recorded(self, carried: Carried) -> Carried:
        carried = without_signatures(carried, self.profile.signature_header.encode())
        request, answer = carried.request, carried.answer
        reply, problem = carried.reply, carried.problem
        if reply is None and answer is not None and not problem:
            problem = reply_in(answer)[1]
        exchange = Exchange(
            title=request.title,
            method=request.method,
            path=request.path,
            request_headers=(*carried.headers, *((name, _HIDDEN) for name in self.shown_headers)),
            request_body=request.body[:_KEPT_BYTES],
            request_bytes=len(request.body),
            status=carried.status,
            answer_headers=pairs_of(answer.headers) if answer else (),
            answer_body=carried.body[:_KEPT_ANSWER_BYTES],
            reply=reply,
            problem=problem,
            elapsed_ms=carried.elapsed_ms,
            at_millis=carried.began_millis,
            answer_bytes=len(carried.body),
            manner=request.manner.value,
            at=request.at,
            signed_by=signer_of(request.seal),
        )
        place = next(reversed(self._kept), -1) + 1
        self._kept[place] = exchange
        if place >= _FIRST + _LAST:
            del self._kept[place - _LAST]
        return replace(carried, problem=problem, place=place)


def _check_can_bet(player: Player) -> None:
    if player.opening_cents < _LEAST_CENTS:
        told = f"{player.id} has {units(player.opening_cents)} left of what was tried before"
        raise NotTried(f"{told}, and that is too little to bet")


def _stumbled(odd: Exception) -> str:
    return f"the certifier stumbled over an answer ({type(odd).__name__}: {odd}); please report it"


#: A balance that cannot be brought back at once is brought back in at most this many pieces.
_MOST_PIECES: Final = 80
#: This many bets are tried, until one is still open.
_MOST_CANCELLED: Final = 20


def put_back(at: Stage) -> None:
    """Bring both balances to where they were; judge nothing."""
    at.cancel_in_doubt()
    for player in (at.player, at.other):
        piece_cents = left_cents = MOST_BALANCE_CENTS
        for number in range(_MOST_PIECES):
            cents = current_cents(at, player)
            if cents is None:
                break
            more = int((cents - player.opening_cents) / at.observed.scale)
            if not number:
                # A wallet that does not say what it has must not be led further and further away.
                left_cents = min(2 * abs(more), MOST_BALANCE_CENTS)
            if not more or abs(more) > left_cents or not piece_cents:
                break
            part = min(abs(more), piece_cents)
            if _taken(at, player, part) if more > 0 else _given(at, player, part):
                left_cents -= part
            elif at.observed.last is not None and at.observed.last[0].timed_out:
                break  # Each piece would take as long as a timeout.
            else:
                # The wallet may limit what a bet can be.
                piece_cents = part // 2


def current_cents(at: Stage, player: Player) -> int | None:
    """Return what the player has, by a balance check; where those are behind, by a small bet or a later check."""
    if at.observed.is_behind:
        if (cents := at.cents_by_probe(player)) is not None:
            return cents
        at.pause(2 * at.observed.lags_seconds)
    at.pause(2 * at.observed.late_seconds)
    for _ in range(_MOST_FAILURES):
        heard = at.send(at.balance_request("the balance afterwards", player))
        if heard.reply is not None or not heard.status:
            break
    return heard.balance_cents if heard.succeeded else None


def _taken(at: Stage, player: Player, cents: int) -> bool:
    """Take *cents* from the player by a loss; of less than the least wager, the rest of one is won back."""
    least = at.observed.wager_cents or 0
    return _played(at, player, cents, 0) or (least > cents and _played(at, player, least, least - cents))


def _given(at: Stage, player: Player, cents: int) -> bool:
    """Give the player *cents* by a jackpot, a win or a refund; return whether the wallet paid anything."""
    jackpots = (at.request(each, "what brings the balance back") for each in at.jackpots(cents, player))
    placed = [bet for bet in at.bets[::-1] if bet.player_id == player.id][:_MOST_CANCELLED]
    refunds = (at.request(bet.rollback(), "what gives a wager back") for bet in placed)
    if any(at.send(each).succeeded for each in jackpots) or _played(at, player, 1, cents + 1):
        return True
    # A player without money cannot place a bet, so the last open one is cancelled.
    return any(at.send(each).succeeded for each in refunds)


def _played(at: Stage, player: Player, wager_cents: int, won_cents: int) -> bool:
    bet = at.bet(player, wager_cents)
    placed = at.send(at.request(bet.withdraw(), "what brings the balance back"))
    if placed.succeeded:
        at.send(at.request(bet.deposit(won_cents), "its end"))
    return placed.succeeded
