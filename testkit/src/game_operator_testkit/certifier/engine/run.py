"""Plays scenarios against a wallet, one after the other, and makes a verdict of each."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator_testkit.certifier.engine.balances import units
from game_operator_testkit.certifier.engine.calls import Player
from game_operator_testkit.certifier.engine.certification import Certification, new_run_id
from game_operator_testkit.certifier.engine.chance import look_for_chance
from game_operator_testkit.certifier.engine.diagnosis import WITHDRAW
from game_operator_testkit.certifier.engine.observed import Observed
from game_operator_testkit.certifier.engine.restoring import current_cents, put_back
from game_operator_testkit.certifier.engine.scenario import LOAD, STAGES, Scenario, verdict_of
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Allowance, Found, Limited, NotTried, undone_by_errors
from game_operator_testkit.certifier.engine.supplies import at_hand, missing_told
from game_operator_testkit.certifier.report.again import signer_of, without_signatures
from game_operator_testkit.certifier.report.verdicts import (
    BALANCE_PATH,
    Exchange,
    KnownCause,
    Note,
    Outcome,
    Symptom,
    SymptomKind,
    Verdict,
    Weight,
)
from game_operator_testkit.provider.delivery import Carried, pairs_of, reply_in
from game_operator_testkit.provider.http import HttpCarrier
from game_operator_testkit.provider.in_process import InProcessCarrier, WrongReplyError
from game_operator_testkit.provider.requests import Request

#: So many exchanges are kept from the beginning of a scenario and from its end.
_FIRST, _LAST = 40, 120
#: How much of a body is kept.
_KEPT_BYTES: Final = 65_536
#: And of an answer, of which a reply has some hundred.
_KEPT_ANSWER_BYTES: Final = 4_096
#: After this many scenarios in a row without an answer, the wallet counts as gone.
_MOST_SILENT: Final = 3
_SILENT: Final = frozenset({KnownCause.NO_ANSWER, KnownCause.GONE})
#: To bring balances back, even if no time is left.
_GRACE_SECONDS: Final = 10.0
#: With less a player cannot pay for twenty bets.
_LEAST_CENTS: Final = 20
#: In wagers: what balances may gain or lose before they are put back.
_MOST_DRIFT: Final = 40
#: So often a scenario must pass if what it found is to be a matter of chance; of these stages, and not if its ids are
#: the same each time, or its calls come at once.
_AGAIN: Final = 2
_REPLAYED: Final = (STAGES[0], STAGES[2])
_ONCE: Final = ("F13", "H05")
#: Of what a player is owed, too little is not doubled.
_SHORT: Final = tuple(Symptom(path, SymptomKind.TOO_LITTLE) for path in ("/deposit", "/rollback"))
#: Wagers that are tried where a limit of the wallet refuses the usual one, in parts of it: smaller ones first, because
#: most limits are of what a player may lose.
_PARTS: Final = ((1, 5), (1, 25), (1, 100), (2, 1), (5, 1), (10, 1), (1, 500))
_NO_LIMITS: Final = frozenset(code.value for code in Code) - {Code.LIMIT_EXCEEDED}
#: In place of the value of a header that the user added.
_HIDDEN: Final = "…".encode()


@dataclass(kw_only=True, eq=False, repr=False)
class Run:
    """
    A certification under way.

    Attributes:
        carrier: Signs requests and brings them to the wallet.
        certification: What it is made with.
        shown_headers: Names of the headers that the user added, for the report.
        run_id: What all ids begin with.
        observed: What has been seen of the wallet.
        known: Both balances in cents by player, as the last scenario left them; None if one must be asked for.
        calls: How many requests were sent.
        moving_calls: How many of them were not balance checks.
    """

    carrier: HttpCarrier | InProcessCarrier
    certification: Certification
    shown_headers: tuple[bytes, ...] = ()
    run_id: str = field(init=False)
    observed: Observed = field(default_factory=Observed, init=False)
    known: dict[str, int | None] = field(init=False)
    calls: int = field(default=0, init=False)
    moving_calls: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        given = self.certification
        self.run_id = given.run_id or new_run_id()
        self.known = dict.fromkeys((given.player_id, given.other_player_id))
        self.allowance: Allowance = Allowance(given.deadline, given.stopping)
        self._supplied = at_hand(given.supplies, given.profile, on_wire=self.carrier.on_wire)
        self._silent = self._outside = 0
        #: The exchanges of the scenario that are kept, by their places among all of them.
        self._kept: dict[int, Exchange] = {}
        #: By scenario, the verdict on its beginning, the stage of that, and its exchanges.
        self._begun: dict[str, tuple[Verdict, Stage | None, dict[int, Exchange]]] = {}
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
        began = time.monotonic()
        verdict, stage, self._kept = self._begun.get(scenario.id, (None, None, {}))
        if verdict is None or verdict.outcome is Outcome.PASSED or verdict.is_advice:
            verdict, stage = self._played(scenario, stage)
            self._settle(stage, verdict)
        return replace(verdict, duration_ms=(time.monotonic() - began) * 1_000)

    def begin(self, scenario: Scenario) -> None:
        """Play what *scenario* does before all others; what is wrong then is its verdict."""
        if scenario.begin is not None and self._supplied.issuperset(scenario.needs):
            self._kept = {}
            verdict, stage = self._played(replace(scenario, play=scenario.begin), None)
            self._begun[scenario.id] = verdict, stage, self._kept
            self._settle(stage, verdict)

    @contextmanager
    def outside(self) -> Iterator[Stage]:
        """Yield a stage for calls outside any scenario. There is always a little time for them."""
        self._kept, self._outside = {}, self._outside + 1
        with self.allowance.grace(_GRACE_SECONDS):
            yield self._stage(f"end-part-{self._outside}")  # No id comes twice.

    def balances(self) -> list[int | None]:
        """Return both balances in cents, None where one cannot be read; by small bets if player-balance is behind."""
        with self.outside() as at:
            return [_cents_if_told(at, player) for player in (at.player, at.other)]

    def put_back(self, before: Mapping[str, int]) -> None:
        """Bring both balances to what they were *before* the run, if the wallet lets us."""
        self._at_first = dict(before)
        with self.outside() as at:
            self._restored(at)

    def _played(self, scenario: Scenario, stage: Stage | None) -> tuple[Verdict, Stage | None]:
        """Play *scenario*, on the *stage* that its beginning was played on if there is one; return that, too."""
        notes: list[Note] = []
        cut: NotTried | None = None
        try:
            self.allowance.check("not begun")
            if self._silent >= _MOST_SILENT:
                told = f"not begun: the wallet gave no answer in the last {_MOST_SILENT} scenarios"
                raise Found(told, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.NO_ANSWER)
            stage = self._staged(scenario.id, stage)
            notes = stage.notes
            stage = self._within_limits(scenario, stage)
            notes = stage.notes
            stage.check_balances()
        except NotTried as why:
            cut = why
        except Found as found:
            notes.append(self._note_of(found, scenario, stage))
        except WrongReplyError:  # It says nothing of the wallet.
            raise
        except Exception as odd:  # An answer that was not foreseen still needs a verdict.
            told = f"the certifier stumbled over an answer ({type(odd).__name__}: {odd}); please report it"
            notes.append(Note(told, Weight.CONTRACT_BROKEN))
        return verdict_of(scenario, notes, self._kept, cut), stage

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
        under_load = scenario.stage == LOAD
        cause = look_for_chance(stage, found, kept, under_load=under_load, restore=lambda: self._restored(stage))
        if cause and self._passes_again(scenario, stage):
            found.reason += ". Played again, it passed: it is chance, or an earlier call has left something behind"
            found.cause = cause

    def _passes_again(self, scenario: Scenario, stage: Stage) -> bool:
        """Return whether *scenario* passes a few times more, where that says something."""
        is_plain = scenario.stage in _REPLAYED and not scenario.needs and scenario.id not in _ONCE
        if not is_plain or self.observed.is_slow or self.observed.unjudged or self.observed.late_seconds:
            return False
        self._restored(stage)
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

    def _within_limits(self, scenario: Scenario, stage: Stage) -> Stage:
        """Play on *stage*, and on a new one with another wager if a limit refused it; return the last stage."""
        try:
            scenario.play(stage)
        except Limited as limit:
            if self.observed.is_limited:
                raise
            if not _is_wager_found(stage, limit.heard.code):
                # A limit that is named may be one of a minimum that is above all that was tried.
                if WITHDRAW in self.observed.accepted or limit.heard.code == Code.LIMIT_EXCEEDED:
                    raise
                told = f"refused with {limit.heard.code} instead of SUCCESS, as are lower and higher wagers"
                raise Found(told, limit.heard, cause=KnownCause.NO_BET) from None
            self._restored(stage)
            stage = self._staged(f"{scenario.id}-within-limits")
            scenario.play(stage)
        return stage

    def _settle(self, stage: Stage | None, verdict: Verdict) -> None:
        """Remember balances that are known, and put them back if they are not, or far from what they were."""
        self.known = dict.fromkeys(self.known)
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
        self.known = dict.fromkeys(self.known)
        for player in (stage.player, stage.other):
            player.opening_cents = self._at_first.get(player.id, player.opening_cents)
        with suppress(Found), self.allowance.grace(_GRACE_SECONDS):  # The report says what was left.
            put_back(stage)

    def _staged(self, name: str, begun: Stage | None = None) -> Stage:
        """Return a new stage, or the one that was *begun*, whose players have what they have now."""
        stage = begun or self._stage(name)
        for player in (stage.player, stage.other):
            if begun is not None or self.known[player.id] is None:
                player.opening_cents = player.due_cents = stage.opening_cents_of(player)
            if player.opening_cents < _LEAST_CENTS:
                told = f"{player.id} has {units(player.opening_cents)} left of what was tried before"
                raise NotTried(f"{told}, and that is too little to bet")
        stage.told.clear()
        return stage

    def _stage(self, name: str) -> Stage:
        player, other = (Player(player_id, cents or 0, cents or 0) for player_id, cents in self.known.items())
        given = self.certification
        return Stage(
            player=player,
            other=other,
            carry=self._carry,
            act=self._act,
            profile=replace(given.profile, fields={**given.profile.fields, **self.observed.reads}),
            prefix=f"{self.run_id}-{name}",
            instance_id=given.instance_id,
            supplied=self._supplied,
            supplies=given.supplies,
            game=given.game or "certify",
            observed=self.observed,
            pause=self._pause,
        )

    def _pause(self, seconds: float) -> None:
        self.allowance.check("broken off")
        time.sleep(seconds)

    def _carry(self, requests: Sequence[Request]) -> list[Carried]:
        self.allowance.check("broken off")
        carried = self.carrier.carry(requests)
        self.calls += len(requests)
        self.moving_calls += sum(request.path != BALANCE_PATH for request in requests)
        return [self._recorded(each) for each in carried]

    def _act(self, what: str, *arguments: object) -> None:
        """Do to the wallet what a scenario asks for; raise ``Undone`` if it does not work."""
        with undone_by_errors(f"{what} could not be done"):
            getattr(self.certification.supplies, what)(*arguments)

    def _recorded(self, carried: Carried) -> Carried:
        carried = without_signatures(carried, self.certification.profile.signature_header.encode())
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


def _cents_if_told(at: Stage, player: Player) -> int | None:
    with suppress(Found):  # The wallet takes longer than there is time.
        return current_cents(at, player)
    return None


def _is_wager_found(at: Stage, code: str | None) -> bool:
    """Try wagers, and note the first one that is not refused by a limit, as by *code*; each is rolled back."""
    usual_cents = at.unit_cents
    at.observed.is_limited = True
    due_cents = at.balance_of(at.player)
    wagers_cents = [usual_cents * part // of for part, of in _PARTS]
    if code != Code.LIMIT_EXCEEDED:
        wagers_cents.append(at.player.opening_cents * 9 // 10)  # Nobody knows whether it is a limit.
    for cents in wagers_cents:
        if not 1 <= cents <= at.player.opening_cents:
            continue
        bet = at.bet(wager_cents=cents)
        placed = at.send(at.request(bet.withdraw(), f"a withdraw of {cents} cents, to find a wager within the limits"))
        if placed.succeeded:
            at.send(at.request(bet.rollback(), "its rollback"))
            at.observed.wager_cents = cents
            return True
        if placed.code is None or placed.code in _NO_LIMITS:
            return False
        if (left_cents := at.balance_of(at.player)) != due_cents:
            told = f"refused with {placed.code}, and the balance moved from {units(due_cents)} to {units(left_cents)}"
            raise Found(told, placed, weight=Weight.MONEY_LOST)
    return False
