"""The stage of one scenario: ways to ask the wallet, and to judge what it answers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import WebhookCall, WithdrawCall
from game_operator.protocol.webhook_reply import fold_code
from game_operator_testkit.certifier.engine.balances import units
from game_operator_testkit.certifier.engine.calls import Asked, Player, moved_by
from game_operator_testkit.certifier.engine.diagnosis import DEPOSIT, ROLLBACK, WITHDRAW, Diagnosis
from game_operator_testkit.certifier.engine.steps import Found, Limited, NotTried, symptom_of, turned_away
from game_operator_testkit.certifier.report.verdicts import TURNING_AWAY, KnownCause, Symptom, SymptomKind, Weight
from game_operator_testkit.provider.delivery import Carried, Finality, finality, is_definite
from game_operator_testkit.provider.requests import BetCalls, Manner, Request

_KNOWN: Final = frozenset(code.value for code in Code)
_MOST_REPEATS: Final = 4
#: Refusals of a call that comes when its bet has ended.
_OF_AN_ENDED_BET: Final = (Code.BET_ROLLED_BACK, Code.BET_ALREADY_CLOSED)
#: Refusals of a call that needs the money, or the bet, of the one before.
_OF_A_LOST_MOVEMENT: Final = (Code.INSUFFICIENT_BALANCE, Code.BET_NOT_FOUND)
#: Calls at once that fail are starved if they took so long, and so many times as long as one at a time.
_STARVED_MS: Final = 1_000.0
_STARVED_TIMES: Final = 20
#: A code is one word. An operator's own (docs/decisions/0013) may be written in another way.
_CODE: Final = re.compile(r"[\w.:-]{1,64}", re.ASCII)
#: What languages write for a missing value.
_PLACEHOLDERS: Final = frozenset({"undefined", "null", "none", "nil", "nan"})


def time_of(heard: Carried) -> int:
    """Return the timestamp of a reply; 0 if the reply has no timestamp, as some refusals."""
    return 0 if heard.reply is None else heard.reply.timestamp or 0


class Stage(Diagnosis):
    """What a scenario has: its calls, and ways to ask and to judge."""

    # Asking and judging. What is wrong ends the scenario by Found, or is noted if the scenario can go on.

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

    def accepts_all(self, calls: Sequence[tuple[WebhookCall, str]]) -> None:
        """Hold that each of *calls*, by its title, is accepted; a slow wallet is sent them all at once."""
        if not self.observed.is_slow:
            for call, title in calls:
                self.accepts(call, title)
            return
        heard = self.answered([self.request(call, title) for call, title in calls])
        for (call, _), each in zip(calls, heard, strict=True):
            self.check_success(each)
            self._player_of(call).due_cents += moved_by(call)
        self.check_balances()

    def placed(self, *bets: BetCalls, title: str = "a withdraw") -> BetCalls:
        """Place *bets*, or a new one, and return the first."""
        bets = bets or (self.bet(),)
        for bet in bets:
            self.accepts(bet.withdraw(), title)
        return bets[0]

    def again(self, what: Asked, first: Carried, title: str, *, cause: str = "") -> Carried:
        """
        Hold that a known call is answered as it was at *first*, moving nothing.

        It returns the current balance, or word for word the first answer (docs/decisions/0012). *cause* is what it
        comes from if it is refused as if it were unknown.
        """
        heard = self.ask(what, title)
        self.check_same_outcome(heard, first, cause)
        if heard.code != first.code:
            self.advise(f"refused with {heard.code}; the first time with {first.code}", heard)
        if heard.reply is not None and heard.reply != first.reply:
            self.check_balance(heard, self._player_of(what))
        if heard.succeeded:
            self.observed.repeated.add(self.kind_of(heard))
        return heard

    def check_same_outcome(self, heard: Carried, first: Carried, cause: str = "") -> None:
        """Hold that a known call is a SUCCESS, or a refusal, as it was at *first*; ``again`` looks at more."""
        if heard.succeeded != first.succeeded:
            raise self._answered_otherwise(heard, first, cause)

    def _answered_otherwise(self, heard: Carried, first: Carried, cause: str) -> Found:
        told = f"returned {heard.code or 'SUCCESS'}; the first time it returned {first.code or 'SUCCESS'}"
        symptom = symptom_of(heard, SymptomKind.ANSWERED_OTHERWISE)
        if heard.status in TURNING_AWAY:
            return turned_away(heard)
        if heard.succeeded:
            player = self._player_of(heard)
            if self.balance_of(player) == player.due_cents:
                cause, symptom = KnownCause.ONLY_SAID, _accepted_symptom(heard, first.code or "")
                told += "; nothing moved, although the service believes it did"
                return Found(told, heard, weight=Weight.MONEY_LOST, cause=cause, symptom=symptom)
            # The service has given that bet up.
            return Found(told, heard, weight=Weight.MONEY_LOST if _is_withdraw(heard) else None, symptom=symptom)
        weight, cause = self._refused_repeat(heard, cause)
        return Found(told, heard, weight=weight, cause=cause, symptom=symptom)

    def check_repeat(self, heard: Carried, *, is_booked: bool = False) -> None:
        """Hold that a repeat of a call is a SUCCESS; *is_booked* says that its money is known to have moved once."""
        is_open = heard.code == Code.SYSTEM_ERROR and not is_booked
        if is_open or heard.code in (None, Code.LIMIT_EXCEEDED) or heard.status in TURNING_AWAY:
            self.check_success(heard, Weight.MONEY_LOST)
            return
        is_gone = heard.code == Code.BET_NOT_FOUND and heard.request.path == DEPOSIT
        weight, cause = self._refused_repeat(heard, KnownCause.SETTLED_GONE if is_gone else "")
        told = f"refused with {heard.code} instead of SUCCESS"
        if heard.code == Code.PLAYER_NOT_FOUND:
            cause = self.cause_among_others(heard) or cause
        raise Found(told, heard, weight=weight, cause=cause or KnownCause.TWIN_REFUSED)

    def _refused_repeat(self, heard: Carried, if_unknown: str = "") -> tuple[Weight, str]:
        """Return what a refused repeat costs, and what it comes from; "" if the scenario says what is special."""
        path = heard.request.path
        # Nothing moved again. Of a bet that was debited, the service believes that it was not placed.
        weight = Weight.MONEY_LOST if path == WITHDRAW else Weight.CONTRACT_BROKEN
        if if_unknown and heard.code in (Code.BET_NOT_FOUND, Code.SYSTEM_ERROR):
            return weight, if_unknown
        is_known = self.kind_of(heard) in self.observed.repeated and heard.code != Code.BET_ALREADY_CLOSED
        return weight, "" if is_known else KnownCause.REPEAT_REFUSED

    def refuses(
        self,
        what: Asked,
        title: str,
        code: str,
        *,
        success_is_advice: bool = False,
        final_code_is_advice: bool = False,
        status: int = 200,
        cause: str = "",
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
            cause: What it comes from if it is accepted.
        """
        heard = self.ask(what, title, status=status, due=fold_code(code, self.profile))
        who = self._player_of(what)
        if heard.succeeded:
            self.accepted_wrongly(heard, who, code, sound=success_is_advice, cause=cause)
            return heard
        self.check_code(heard, code, final_code_is_advice=final_code_is_advice)
        self.check_balance(heard, who)
        return heard

    def refuses_all(self, requests: Sequence[Request], code: str) -> None:
        """Hold that each of *requests* is refused, as ``refuses`` does; a slow wallet is sent them all at once."""
        if not self.observed.is_slow:
            for request in requests:
                self.refuses(request, "", code)
            return
        for heard in self.answered(requests):
            if heard.succeeded:
                self.accepted_wrongly(heard, self.player, code)
            else:
                self.check_code(heard, code)
        self.check_balances(self.player)

    def stays_cancelled(self, withdraw: WithdrawCall, first: Carried, title: str) -> None:
        """
        Hold that a withdraw that was a SUCCESS *first* is refused once its bet is rolled back, and moves nothing.

        Its first answer, word for word, is right where the profile says so, and advice elsewhere (docs/decisions/0012).
        """
        heard = self.ask(withdraw, title)
        is_verbatim = heard.succeeded and heard.reply == first.reply and time_of(heard)
        # A wallet that debits the bet anew within the same moment may give the same answer, too.
        if is_verbatim and (self.observed.hides_money or self._has_what_is_due(withdraw)):
            if self.profile.duplicate_reply != "verbatim":
                told = f"returned its first answer, word for word; {Code.BET_ROLLED_BACK} is assumed"
                self.note(told, Weight.ADVICE, KnownCause.VERBATIM, heard)
            return
        if heard.succeeded:
            self.accepted_wrongly(heard, self._player_of(withdraw), Code.BET_ROLLED_BACK)
        self.check_code(heard, Code.BET_ROLLED_BACK)
        self.check_balance(heard, self._player_of(withdraw))

    def _has_what_is_due(self, call: WebhookCall) -> bool:
        player = self._player_of(call)
        return self.balance_of(player) == player.due_cents

    def answered(self, requests: Sequence[Request]) -> list[Carried]:
        """
        Send *requests* all at once, hold that each is answered by a reply, and return the answers in order.

        What was answered SYSTEM_ERROR is sent again, as the service would; that it was needed is advice.
        """
        heard = self.together(requests)
        self._check_not_starved(heard)
        failed = 0
        for place, each in enumerate(heard):
            self.check_reply(each)
            if each.code == Code.SYSTEM_ERROR and not self.may_be_unread(each.request):
                failed += 1
                heard[place] = self.insisted(each.request)
                if heard[place].succeeded:
                    self._failed_first.append((self.moved_if_carried_out(each), heard[place]))
        if failed:
            told = f"{failed} of {len(requests)} calls at once returned SYSTEM_ERROR, and were sent again"
            self.note(told, Weight.ADVICE, "SYSTEM_ERROR where many call at once")
        return heard

    def _check_not_starved(self, heard: Sequence[Carried]) -> None:
        """Hold that calls at once do not wait for each other until a timeout ends them; SYSTEM_ERROR then is advice."""
        least_ms = max(_STARVED_MS, _STARVED_TIMES * self.observed.usual_ms)
        failed = [each for each in heard if each.timed_out or each.code == Code.SYSTEM_ERROR]
        slow = [each for each in failed if each.elapsed_ms >= least_ms]
        if len(slow) < 2:
            return
        seconds = max(each.elapsed_ms for each in slow) / 1_000
        told = f"{len(slow)} of {len(heard)} calls at once failed after up to {seconds:.1f} s, and one call at a time "
        told += f"takes {self.observed.usual_ms:.0f} ms"
        if any(each.timed_out for each in slow):
            raise Found(told, slow[0], weight=Weight.CONTRACT_BROKEN, cause=KnownCause.STARVED)
        self.note(told, Weight.ADVICE, KnownCause.STARVED, slow[0])

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

    def check_unlimited(self, heard: Carried, *, asked: bool) -> None:
        """
        Raise NotTried if a limit refused a withdraw; ``Limited`` unless a limit was *asked* for by a high wager.

        First hold that what was refused moved nothing.
        """
        if (told := self._limited(heard, asked=asked)) is None:
            return
        self.check_balances(self.player, after=heard)
        raise NotTried(told) if asked else Limited(told, heard)

    def _limited(self, heard: Carried, *, asked: bool) -> str | None:
        """Return what a limit refused; None if none did."""
        if heard.code is None or heard.request.path != WITHDRAW:
            return None
        seen = self.observed
        is_named = heard.code == Code.LIMIT_EXCEEDED
        if not is_named and seen.is_limited and seen.wager_cents is None and WITHDRAW not in seen.accepted:
            return None  # No wager was accepted, whatever its amount.
        own = heard.code not in (*_KNOWN, self.observed.no_funds_code) and not _is_invalid_code(heard.code)
        folded = heard.code == fold_code(Code.LIMIT_EXCEEDED, self.profile)
        # Until it was tried, nobody knows whether a code of the wallet's own is a limit.
        is_limit = own and (not seen.is_limited or self._bets_too_little)
        if is_named or (asked and (own or folded)) or is_limit:
            return f"the wallet limits wagers: {heard.request.title} was refused with {heard.code}"
        return None

    @property
    def _bets_too_little(self) -> bool:
        """Whether the one wager that the wallet was seen to accept is more than a player can pay twenty times."""
        return (self.observed.wager_cents or 0) > self.unit_cents

    def check_moved(self, heard: Carried, player: Player, moves: int) -> None:
        """Hold that it is a SUCCESS with the balance that is due once *moves* cents have moved."""
        self.check_success(heard)
        player.due_cents += moves
        self.moved_before, self.moving = self.moving, (heard, moves)
        self.check_balance(heard, player)
        self.observed.accepted.add(heard.request.path)
        call = self._calls.get(heard.request.body)
        if isinstance(call, WithdrawCall) and moves < 0:
            self.observed.debited = heard, call

    def check_success(self, heard: Carried, weight: Weight | None = None) -> None:
        """
        Hold that it is a SUCCESS; otherwise it costs *weight*, or what the scenario says.

        Raises:
            NotTried: LIMIT_EXCEEDED, as of a limit of what a player wagers in a day; or a minimum that no bet reaches.
        """
        may_limit = heard.code == Code.LIMIT_EXCEEDED or self._bets_too_little
        if may_limit and (told := self._limited(heard, asked=True)) is not None:
            raise NotTried(told)
        if not heard.succeeded:
            if heard.status in TURNING_AWAY:
                raise turned_away(heard)
            self._check_paid_for(heard)
            self._check_stored(heard)
            told = f"refused with {heard.code} instead of SUCCESS{self._since(heard)}"
            cause = self.cause_of_refusal(heard)
            if twin := self.observed.twin_of(heard, elsewhere=True):
                told, cause = f"{told}; the answer is that to {twin}, byte for byte", KnownCause.SAME_REPLY
            if cause == KnownCause.NO_FUNDS and heard.balance_cents is not None:
                told += f"; its own answer shows {units(heard.balance_cents)}"
            if cause == KnownCause.AMOUNT:
                told += f"; so is one of {units(-self.moved_if_carried_out(heard))} with plain ids"
            if cause in (KnownCause.ODD_IDS, KnownCause.NARROW, KnownCause.AMOUNT) and _is_withdraw(heard):
                weight = Weight.CONTRACT_BROKEN  # Nothing was taken.
            if cause == KnownCause.HALF_DONE:
                weight = Weight.MONEY_DOUBLED
            raise Found(told, heard, weight=weight, cause=cause)

    def _check_stored(self, heard: Carried) -> None:
        """Hold that a refusal does not come of the last movement, which was a SUCCESS, not having been stored."""
        player = self._player_of(heard)
        is_told = heard.code in _OF_A_LOST_MOVEMENT and heard.balance_cents != player.due_cents
        if heard.request.body in self._at_once or not is_told:
            return
        if gone := self.taken_back(player, self.balance_of(player) - player.due_cents, heard):
            raise gone

    def _check_paid_for(self, heard: Carried) -> None:
        """Raise NotTried if a new withdraw is refused because there is less money than its wager: that is right."""
        due_cents, body = self._player_of(heard).due_cents, heard.request.body
        is_new = _is_withdraw(heard) and body not in self._at_once | self._accepted
        if is_new and heard.code == Code.INSUFFICIENT_BALANCE and due_cents < -self.moved_if_carried_out(heard):
            raise NotTried(f"the player has {units(due_cents)}, and {heard.request.title} takes more")

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
        if heard.code == Code.SYSTEM_ERROR and self.may_be_unread(heard.request):
            return
        told = f"refused with {heard.code}; {due} is assumed"
        if _is_invalid_code(heard.code):
            self.note(told, Weight.CONTRACT_BROKEN, KnownCause.INVALID_CODE, heard)
            return
        early_code = self.profile.early_deposit_code
        due_is, is_ = (finality(operation, each, early_code=early_code) for each in (due, heard.code))
        cause = self._other_profile(heard, code)
        if due_is is not Finality.FINAL and is_ is Finality.FINAL:
            # A bet that is never placed costs nobody anything.
            harmless = final_code_is_advice or heard.request.path == WITHDRAW
            weight = Weight.ADVICE if harmless else Weight.MONEY_LOST
            told += "; the service takes this for final and never sends it again"
            self.note(told, weight, cause, heard, symptom=symptom_of(heard, SymptomKind.REFUSED, heard.code))
            return
        if due_is is Finality.FINAL and is_ is not Finality.FINAL:
            told += "; the service may send it again for hours"
        is_unread = (due, heard.code) == (Code.INVALID_REQUEST, Code.SYSTEM_ERROR)
        self.note(told, Weight.ADVICE, cause or (KnownCause.UNREAD if is_unread else KnownCause.OTHER_CODES), heard)

    def check_balance(self, heard: Carried, player: Player) -> None:
        """Hold that the balance in *heard*, if any, is the one that is due; if not, find out which is wrong."""
        told = heard.balance_cents
        if told is None or told == player.due_cents:
            return
        if heard.code == Code.INVALID_SIGNATURE:
            return  # Nothing of the call is to be looked at; what such an answer has in it is judged by group E.
        self.check_balances(player, after=heard)
        reason = f"returned a balance of {units(told)}; expected {units(player.due_cents)}"
        is_scaled = player.due_cents and player.due_cents * 100 == told
        cause = KnownCause.SCALE if is_scaled else KnownCause.WRONG_BALANCE
        is_old = self.moving is not None and self.moving[0] is heard and told == player.due_cents - self.moving[1]
        if self.moving is not None and self.moving[0] is heard:
            reason += f"; it was {units(player.due_cents - self.moving[1])} before the call"
        if not is_scaled and not is_old and (shown := self._shown_of_another(heard, player)):
            reason, cause = f"{reason}. {shown}", KnownCause.OWNERS_BALANCE
        # A balance from before the movement may have the time of before, too.
        if not is_old and (twin := self.observed.twin_of(heard)):
            reason += f"; the answer is that to {twin}, byte for byte"
            cause = KnownCause.SAME_REPLY
        self.note(reason, Weight.CONTRACT_BROKEN, cause, heard)

    def _shown_of_another(self, heard: Carried, player: Player) -> str:
        """Return what to add if *heard* has the balance of another, and when it comes again has their new one."""
        another = self.other if player is self.player else self.player
        if heard.balance_cents != another.due_cents:
            return ""
        # Two balances may be equal by chance, so that of another is changed by a cent.
        was_playing = another.id in self.playing
        bet = self.bet(another, 1)
        placed = self.send(self.request(bet.withdraw(), f"a small withdraw of {another.id}, to tell balances apart"))
        again = self.send(replace(heard.request, title="the same call again, to see whose balance it has"))
        back = self.send(self.request(bet.rollback(), "its rollback"))
        if not was_playing:
            del self.playing[another.id]
        is_theirs = placed.succeeded and again.balance_cents == another.due_cents - bet.wager_cents
        if placed.succeeded and not back.succeeded:
            another.due_cents -= bet.wager_cents  # What the certifier itself has taken is not missing.
        if not is_theirs:
            return ""
        return f"{another.id} has {units(another.due_cents)}, and the same call follows that balance"

    def check_not_only_said(self, heard: Carried, player: Player, code: str) -> None:
        """End the scenario if a SUCCESS where *code* is due has moved nothing: then only the answer is wrong."""
        if self.balance_of(player) == player.due_cents:
            self.accepted_wrongly(heard, player, code)

    def cancel_in_doubt(self) -> None:
        """Roll back the withdraws that got no answer in time, so that none of them moves money later."""
        for request in self._in_doubt:
            bet = next(
                (bet for bet in self.bets if bet.bet_id == getattr(self._calls[request.body], "bet_id", "")), None
            )
            if bet is not None:
                self.send(self.request(bet.rollback(), "a rollback of a withdraw that got no answer"))
        self._in_doubt.clear()

    def accepted_wrongly(
        self, heard: Carried, player: Player, code: str, *, sound: bool = False, cause: str = ""
    ) -> None:
        """End the scenario at a SUCCESS where *code* is due; one that moved nothing, if that is *sound*, is advice."""
        actual = self.balance_of(player)
        moved, due = actual - player.due_cents, fold_code(code, self.profile)
        if sound and not moved:
            told = f"returned SUCCESS without moving money; {due} is assumed, and no harm is done"
            is_unknown = heard.request.path == ROLLBACK and code == Code.BET_NOT_FOUND
            self.note(told, Weight.ADVICE, KnownCause.UNKNOWN_ROLLBACK if is_unknown else KnownCause.STEADY, heard)
            return
        what = "nothing moved, although the service believes it did"
        if moved:
            what = f"the balance moved by {'+' if moved > 0 else '-'}{units(abs(moved))}"
        symptom = _accepted_symptom(heard, code)
        # What is only said to be done doubles nothing.
        weight = None if moved else Weight.MONEY_LOST
        if not moved and code in _OF_AN_ENDED_BET and cause in ("", KnownCause.PAID_AGAIN):
            cause = KnownCause.ONLY_SAID
        raise Found(f"returned SUCCESS instead of {due}; {what}", heard, weight=weight, cause=cause, symptom=symptom)


def _is_withdraw(heard: Carried) -> bool:
    return heard.request.path == WITHDRAW


def _is_invalid_code(code: str) -> bool:
    """Return whether *code* is a placeholder such as ``undefined``, or not one word."""
    return _CODE.fullmatch(code) is None or code.lower() in _PLACEHOLDERS


def _accepted_symptom(heard: Carried, code: str) -> Symptom:
    # A wallet that checks no signature accepts every operation.
    symptom = symptom_of(heard, SymptomKind.ACCEPTED, code)
    return replace(symptom, path="") if code == Code.INVALID_SIGNATURE else symptom
