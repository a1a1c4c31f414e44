"""
Which balance is right where two answers differ: the money itself, or what is said of it.

Money is called lost only if the wallet's own answers show it. A balance may also be read from a place that is behind,
or be rounded where the answer is written; then the money is right, and the answer is not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator.models.webhooks import BalanceCall, WithdrawCall
from game_operator.money import amount_from_cents
from game_operator_testkit.certifier.engine.amounts import moved_by_another, why_off
from game_operator_testkit.certifier.engine.calls import Player
from game_operator_testkit.certifier.engine.replies import Replies
from game_operator_testkit.certifier.engine.steps import Found, symptom_of, turned_away
from game_operator_testkit.certifier.report.verdicts import BALANCE_PATH, TURNING_AWAY, KnownCause, SymptomKind, Weight
from game_operator_testkit.provider.delivery import Carried

#: Scenarios move whole balances, and an amount ends at 10^15 cents (docs/decisions/0010).
MOST_BALANCE_CENTS: Final = 10**14
#: For so long a balance that is behind is waited for.
_PAUSES_SECONDS: Final = (0.05, 0.2, 0.5, 1.25)
#: Within so long, somebody may take two bets for one that was sent twice.
_MOMENT_MILLIS: Final = 60_000
#: Codes that describe a call, and not its player.
_OF_THE_CALL: Final = frozenset(
    {WebhookErrorCode.INVALID_REQUEST, WebhookErrorCode.INVALID_SIGNATURE, WebhookErrorCode.SYSTEM_ERROR}
)
#: How coarse a rounded balance is: a tenth of a unit, or a whole one.
_STEPS_CENTS: Final = {100: "whole units", 10: "one decimal"}
#: So many balance checks at once show whether all processes have one balance; and so often in a run they are sent.
_AT_REST: Final = 8
_MOST_AT_REST: Final = 4
#: So many balance checks over connections of their own show whether each process has the current balance; and so many
#: small bets, whether they all move the same money.
_CHECKS_APART: Final = 4
_PROBES_APART: Final = 5
#: So many calls show whether others like one are stored.
_MORE_LIKE_IT: Final = 2
#: By what factor a movement is too large or too small where cents and currency units are mixed up.
_SCALES: Final = (Fraction(100), Fraction(1, 100))
#: An amount of which a hundredth is whole cents.
_SCALED_CENTS: Final = 100


def units(cents: int) -> str:
    """Return *cents* as a report shows them: in currency units, with two decimals."""
    return f"{amount_from_cents(cents):.2f}"


class Balances(Replies):
    """Calls whose balances are read and compared."""

    def balance_of(self, player: Player) -> int:
        """Return a player's balance in cents."""
        heard = self.ask(BalanceCall(player_id=player.id), f"the balance of {player.id}")
        self._balance = heard
        return self._balance_in(heard)

    def opening_cents_of(self, player: Player) -> int:
        """Return the balance that a scenario begins with, in cents: no answer before is known to agree with it."""
        seen = self.observed
        if seen.unjudged:
            told = f"not judged: {seen.unjudged}. More mistakes may be hidden"
            raise Found(told, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.UNJUDGED)
        if seen.is_behind and (shown := self.cents_by_probe(player)) is not None:
            return shown
        if waits := max(seen.lags_seconds, seen.late_seconds):
            self.pause(2 * waits)
        return self.balance_of(player)

    def check_balances(self, *players: Player, after: Carried | None = None) -> None:
        """Hold, by a player-balance, that each of *players* (both, if none is named) has what is due."""
        players = players or (self.player, self.other)
        self._recent = tuple(self.observed.movements)  # Without those that are sent to find out more.
        for player, actual_cents in zip(players, self._balances_of(players), strict=True):
            if actual_cents == player.due_cents or self._is_old_by_turns(player):
                continue
            if after is not None:
                self._check_scale(player, actual_cents, after)
            if not self._comes_later(player, actual_cents) and not self._is_old_at_rest(player):
                raise self._wrong_balance(player, actual_cents, after)

    def check_balance_anywhere(self, player: Player) -> None:
        """Hold that balance checks at another process, and at the one that served the calls before, are right."""
        if self._cents_anywhere(player) == player.due_cents or not self._is_old_by_turns(player):
            self.check_balances(player)

    def _cents_anywhere(self, player: Player) -> int:
        self._balance = self.ask(self.at_another(self.balance_request(f"the balance of {player.id}", player)))
        return self._balance_in(self._balance)

    def _balances_of(self, players: Sequence[Player]) -> Iterator[int]:
        """Yield the balances of *players*; a slow wallet is asked for all of them at once."""
        if len(players) == 1 or not self.observed.is_slow:
            yield from map(self.balance_of, players)
            return
        requests = [self.balance_request(f"the balance of {player.id}", player) for player in players]
        for request, heard in zip(requests, self.carry(requests), strict=True):
            if heard.code == WebhookErrorCode.SYSTEM_ERROR:
                heard = self.send(request)
            self.check_reply(heard)
            self._balance = heard
            yield self._balance_in(heard)

    def _balance_in(self, heard: Carried) -> int:
        if heard.balance_cents is None or not heard.succeeded:
            raise self._no_balance(heard)
        if heard.balance_cents > MOST_BALANCE_CENTS:
            told = f"returned {units(heard.balance_cents)}, which no call could move"
            raise Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.WRONG_BALANCE)
        self.observed.exact_to.update(step for step in _STEPS_CENTS if heard.balance_cents % step)
        return heard.balance_cents

    def _no_balance(self, heard: Carried) -> Found:
        if heard.status in TURNING_AWAY:
            return turned_away(heard)
        told, cause = f"refused with {heard.code} instead of a balance", KnownCause.NO_BALANCE
        if heard.code == WebhookErrorCode.PLAYER_NOT_FOUND and self.observed.zero_is_nobody:
            cause = KnownCause.ZERO_IS_NOBODY
        player = self._player_of(heard)
        again = self._sent_once(heard.request)
        if again.succeeded:
            left = units(again.balance_cents or 0)
            told = f"{told}; asked again, it returned {left}"
            return Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.AT_TIMES)
        since = self.observed.refused_since.get(player.id)
        if since is not None and self._is_refused_since(since[0], heard, player):
            told += f", as is every call of {player.id} since {since[0].request.title} in {since[1].rpartition('-')[2]}"
            told += f", which returned {since[0].code or 'SUCCESS'}" if since[0].code != heard.code else ""
            cause = KnownCause.STUCK if heard.code in _OF_THE_CALL else cause
        return Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=cause)

    def _is_refused_since(self, first: Carried, heard: Carried, player: Player) -> bool:
        """Return whether since *first* not only balance checks are refused, as *heard* is."""
        return first.request.path != BALANCE_PATH if first.code == heard.code else self.cents_by_probe(player) is None

    def _wrong_balance(self, player: Player, actual_cents: int, after: Carried | None) -> Found:
        due_cents = player.due_cents
        shown_by = after or self._moved or self._balance
        place = shown_by.place if shown_by else None
        if step := self._rounded_to(player, actual_cents):
            told = (
                f"{player.id} has {units(due_cents)}, and the wallet returns {units(actual_cents)}: it rounds to {step}"
            )
            if float(f"{due_cents / 100:.6g}") * 100 == actual_cents:
                told += ", or to six significant digits"
            self.observed.unjudged = f"the wallet rounds balances: {told}"
            return Found(told, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.ROUNDED, place=place)
        if self._is_unpadded(player, actual_cents):
            told = (
                f"{player.id} has {units(due_cents)}, and the wallet returns {units(actual_cents)}: it leaves out the "
            )
            return Found(
                f"{told}0 before the cents", weight=Weight.CONTRACT_BROKEN, cause=KnownCause.UNPADDED, place=place
            )
        off_cents = actual_cents - due_cents
        much = SymptomKind.TOO_MUCH if off_cents > 0 else SymptomKind.TOO_LITTLE
        since = f"after {after.request.title}, " if after else ""
        reason = f"{since}{player.id} has {units(actual_cents)}; expected {units(due_cents)}"
        reason += f": {units(abs(off_cents))} {much}"
        if shown_by and (gone := self.taken_back(player, off_cents, shown_by)):
            return gone
        cause, more = self._suspected(player, off_cents, shown_by)
        if not cause and self.moving is not None and self.moving[0] is after:
            due_cents = self.moving[1]
            cause, odd = why_off(self, player, self.moving[0], due_cents=due_cents, moved_cents=due_cents + off_cents)
            more = f"{odd}{more}"
        symptom = symptom_of(shown_by, much) if shown_by else None
        return Found(f"{reason}{more}", cause=cause, place=place, symptom=symptom)

    def _suspected(self, player: Player, off_cents: int, shown_by: Carried | None) -> tuple[str, str]:
        """Return what is known of why the money is off: a cause, and more words for the reason."""
        if off_cents in self.suspects:
            return self.suspects[off_cents]
        if failed := next((each for cents, each in self._failed_first if cents == off_cents), None):
            told = f", the amount of {failed.request.title}: it returned SYSTEM_ERROR, then SUCCESS, and moved twice"
            return KnownCause.HALF_DONE, told
        if failed := next((each for cents, each in self._failed_first if cents == -off_cents), None):
            told = f", the amount of {failed.request.title}: it returned SYSTEM_ERROR, then SUCCESS, and moved nothing"
            return KnownCause.FORGOTTEN, told
        if shown_by is not None and shown_by.code and off_cents == self.moved_if_carried_out(shown_by) != 0:
            return KnownCause.REFUSED_AND_MOVED, f"; the call was refused with {shown_by.code}"
        left_open, told = self._moved_by_refused(off_cents, shown_by)
        if left_open:
            return left_open, told
        # An answer that shows what there is belongs to its call.
        is_true = shown_by is not None and shown_by.balance_cents == player.due_cents + off_cents
        if shown_by is not None and shown_by.succeeded and not is_true and (twin := self.observed.twin_of(shown_by)):
            return KnownCause.SAME_REPLY, f"; the answer is that to {twin}, byte for byte"
        if player is self.other and player.id not in self.playing:
            return KnownCause.SHARED, ""
        return "", told or (self._alike_before(off_cents, shown_by) if shown_by else "")

    def taken_back(self, player: Player, off_cents: int, shown_by: Carried) -> Found | None:
        """Return what is wrong if the movement before *shown_by* was a SUCCESS with its balance, and is not stored."""
        last = self._last_before(player, shown_by)
        if last is None or off_cents != -last[1]:
            return None
        heard, moves = last
        is_its_own = self.moved_if_carried_out(shown_by) == off_cents
        if is_its_own and shown_by.succeeded and last is self.moving:
            return None  # It is a repeat, which has moved its money again.
        if shown_by.code and self._is_undone_by(player, heard, shown_by):
            return None
        left_cents = self.balance_of(player)
        # A first answer, word for word, has not what another bet has taken since.
        bet = self.bet(player, 1)
        if self.send(self.request(bet.withdraw(), "a small withdraw, to tell a new answer from the first")).succeeded:
            left_cents -= bet.wager_cents
        again = self.send(replace(heard.request, title="the same call again, to see whether it was stored"))
        self.send(self.request(bet.rollback(), "the small withdraw's rollback"))
        # What was stored moves nothing when it comes again, and is answered by the balance of now or word for word.
        if not again.succeeded or again.balance_cents != left_cents + moves or again.reply == heard.reply:
            return None
        told = f"{heard.request.title}: returned SUCCESS and a balance of {units(heard.balance_cents or 0)}. "
        told += "A balance check" if shown_by is heard else f"The next answer, to {shown_by.request.title},"
        told += f" shows that its {units(abs(moves))} are gone; sent again, it moves them as if it had never come"
        others = [moved_by_another(self, player, heard, abs(moves)) for _ in range(_MORE_LIKE_IT)]
        cause = KnownCause.NOT_COMMITTED if moves in others else KnownCause.NOT_STORED
        return Found(told, weight=Weight.MONEY_LOST, cause=cause, place=heard.place)

    def _is_undone_by(self, player: Player, heard: Carried, refused: Carried) -> bool:
        """Return whether the call *refused* also takes back what a new bet has moved as that of *heard* did."""
        bet_id = self.bet_id_of(heard)
        bet = next((each for each in self.bets if each.bet_id == bet_id), None)
        if bet is None or bet_id.encode() not in refused.request.body or self.kind_of(heard) != heard.request.path:
            return False
        fresh = self.bet(player, bet.wager_cents)
        ids = bet_id.encode(), fresh.bet_id.encode()
        before = [self.request(fresh.withdraw(), "a withdraw of a new bet")]
        if heard.request.path != before[0].path:
            before.append(replace(heard.request, title="the same of it", body=heard.request.body.replace(*ids)))
        cents = [self.balance_of(player)]
        for request in before:
            if not self.send(request).succeeded:
                return False
            cents.append(self.balance_of(player))
        again = replace(refused.request, title="the refused call of it", body=refused.request.body.replace(*ids))
        is_refused = bool(self.send(again).code)
        is_undone = cents[-1] != cents[-2] == self.balance_of(player)
        self.send(self.request(fresh.rollback(), "its rollback"))
        return is_refused and is_undone

    def _last_before(self, player: Player, shown_by: Carried) -> tuple[Carried, int] | None:
        """Return the last movement but *shown_by*, if it is *player*'s, and its answer had the balance of then."""
        last, due_cents = self.moving, player.due_cents
        if last is not None and last[0] is shown_by:
            due_cents -= last[1]
            last = self.moved_before
        if last is None or last[0].balance_cents != due_cents:
            return None
        return last if self._player_of(last[0]) is player else None

    def _moved_by_refused(self, off_cents: int, shown_by: Carried | None) -> tuple[str, str]:
        """Return the cause if the call refused just before *shown_by* has moved since; or words if several may have."""
        before, cents = next((each for each in reversed(self._recent) if each[0] is not shown_by), (shown_by, 0))
        is_call = shown_by is not None and self.call_of(shown_by.request.body) is not None
        # A difference of the amount of the call itself may come from that call.
        is_own = shown_by is not None and abs(off_cents) == abs(self.moved_if_carried_out(shown_by))
        if is_call and not is_own and before is not None and before.code and off_cents == cents:
            told = f", the amount of {before.request.title}, which was refused with {before.code} just before"
            return KnownCause.LEFT_OPEN, told
        worth = {body: self.moved_if_carried_out(each) for body, each in self._refused.items()}
        alike = {body: cents for body, cents in worth.items() if cents * off_cents > 0}
        if not alike or sum(alike.values()) != off_cents:
            return "", ""
        told = " and ".join(f"{self._refused[body].request.title} ({self._refused[body].code})" for body in alike)
        return "", f". As much would have been moved by what was refused before: {told}"

    def _alike_before(self, off_cents: int, heard: Carried) -> str:
        """Return what to add if the withdraw *heard* took nothing, and one that looks like it was debited before."""
        call = self._calls.get(heard.request.body)
        if self.observed.debited is None or not isinstance(call, WithdrawCall) or call.amount_cents != off_cents:
            return ""
        before, other = self.observed.debited
        millis = heard.began_millis - before.began_millis
        is_alike = (other.player_id, other.amount_cents, other.action) == (call.player_id, off_cents, call.action)
        if not is_alike or other.bet_id == call.bet_id or not 0 <= millis < _MOMENT_MILLIS:
            return ""
        return f". Another bet, of the same amount and {millis} ms before, was debited: are the two taken for one?"

    def _check_scale(self, player: Player, actual_cents: int, after: Carried) -> None:
        """End this scenario, and all others, if the call and a plain bet move a hundredfold, or a hundredth."""
        moved_cents = self.moved_if_carried_out(after)
        for scale in _SCALES:
            if not moved_cents or actual_cents - player.due_cents + moved_cents != scale * moved_cents:
                continue
            bet = self.bet(player)
            heard = self.send(self.request(bet.withdraw(), "a withdraw, to see by how much it moves the balance"))
            left_cents = self.balance_of(player)
            self.send(self.request(bet.rollback(), "its rollback"))
            if heard.succeeded and actual_cents - left_cents == scale * bet.wager_cents:
                told = (
                    f"a withdraw of {bet.wager_cents} cents moved the balance by {units(int(bet.wager_cents * scale))}"
                )
                self.observed.scale = scale
                raise self._mixed_up(told, heard)
            if moved_by_another(self, player, after, _SCALED_CENTS) == scale * (
                _SCALED_CENTS if moved_cents > 0 else -_SCALED_CENTS
            ):
                told = f"{after.request.title} of {abs(moved_cents)} cents moved the balance by "
                told += f"{units(abs(int(scale * moved_cents)))}, and another like it does too"
                raise self._mixed_up(told, after)

    def _mixed_up(self, told: str, heard: Carried) -> Found:
        self.observed.unjudged = told
        told += ". All else is not judged, and may be wrong too"
        return Found(told, cause=KnownCause.SCALE, place=heard.place)

    def _is_old_at_rest(self, player: Player) -> bool:
        """
        End this scenario, and all others, if balance checks at once return two balances while nothing moves.

        Return True, and note it, if movements go by what is due all the same.
        """
        if self.observed.seen_at_rest >= _MOST_AT_REST:
            return False
        self.observed.seen_at_rest += 1
        checks = [self.balance_request("a balance check while nothing moves", player)] * _AT_REST
        if "second_url" in self.supplied:
            checks[::2] = [replace(each, at="second") for each in checks[::2]]
        for seconds in (_PAUSES_SECONDS[1], 0.0):
            heard = [each for each in self.carry(checks) if each.balance_cents is not None]
            if len({each.balance_cents for each in heard}) < 2:
                return False
            self.pause(seconds)
        told = " and ".join(units(cents) for cents in sorted({each.balance_cents or 0 for each in heard}))
        told, place = f"balance checks of {player.id} return {told} by turns, while nothing moves", heard[-1].place
        if self._moves_what_is_due(player):
            told += f", and the answers to movements {units(player.due_cents)}"
            return self._lags(told, _PAUSES_SECONDS[0])
        self.observed.unjudged = told
        raise Found(told, weight=Weight.MONEY_LOST, cause=KnownCause.TWO_MEMORIES, place=place)

    # A balance that is behind.

    def _comes_later(self, player: Player, actual_cents: int) -> bool:
        """Return whether the money is right all the same, and note what was late: the money, or its balance check."""
        seen, said = self.observed, self.told.get(player.id) == player.due_cents
        has, due = f"{units(actual_cents)} for {player.id}", units(player.due_cents)
        if seen.is_behind:
            is_right = said or self.cents_by_probe(player) == player.due_cents
            return is_right and self._lags(f"it still returns {has}, who has {due}", seen.lags_seconds)
        if not said and seen.waited_in_vain:
            return False
        moved, shown_by = self._moved, self._moved or self._balance
        after = f"after {moved.request.title}, " if moved else ""
        hopes = said and not seen.waited_in_vain
        # Where no answer had the right balance, the money may still be written a moment later.
        pauses_seconds = _PAUSES_SECONDS if hopes or "wire" in self.supplied else _PAUSES_SECONDS[:2]
        waited = self._await_due(player, pauses_seconds)
        if waited is None:
            waited = sum(pauses_seconds)
            told = f"{after}{waited:g} s later it still returns {has}, and the answers to movements return {due}"
            return said and self.cents_by_probe(player) == player.due_cents and self._lags(told, waited)
        if self._is_old_at_rest(player):
            return True
        if not said or seen.late_seconds or not self._is_seen_by_the_next(player, moved):
            raise self._late(player, actual_cents, waited, shown_by)
        return self._lags(f"{after}it returned {has} at first, and {due} after {waited:g} s", waited)

    def _is_old_by_turns(self, player: Player) -> bool:
        """
        Return whether some balance checks have what is due, and later ones have not, while movements go by what is due.

        They come over several connections, so that each process serves some. What is only late is right from some
        moment on.
        """
        if "wire" not in self.supplied or self.observed.hides_money:
            return False
        others = (self._cents_anywhere(player) for _ in range(_CHECKS_APART))
        cents = [self.balance_of(player), *others, self.balance_of(player)]
        since = cents[cents.index(player.due_cents) :] if player.due_cents in cents else cents
        old = sorted({each for each in since if each != player.due_cents})
        if since is cents or not old or not self._moves_what_is_due(player):
            return False
        told = f"of {len(cents)} balance checks over several connections some returned {units(player.due_cents)} for "
        told += f"{player.id}, which is right, and some {' or '.join(map(units, old))}"
        return self._lags(told, _PAUSES_SECONDS[0])

    def _moves_what_is_due(self, player: Player) -> bool:
        """Return whether small bets over several connections all begin with what is due."""
        if "wire" not in self.supplied or self.observed.hides_money:
            return False
        moved = self._moved
        probed = [self.cents_by_probe(player, fresh=number > 0) for number in range(_PROBES_APART)]
        self._moved = moved
        return all(each == player.due_cents for each in probed)

    def _lags(self, told: str, seconds: float) -> bool:
        """Note that player-balance is behind for so many seconds; the money is right."""
        self.observed.lags_seconds = seconds
        self.note(told, Weight.CONTRACT_BROKEN, KnownCause.LAGGING, self._balance)
        return True

    def _is_seen_by_the_next(self, player: Player, moved: Carried | None) -> bool:
        """Return whether a movement like *moved* is in the balance of the bet right after it."""
        path = "/withdraw" if moved is None else moved.request.path
        bet = self.bet(player)
        due_cents = (
            self.send(self.request(bet.withdraw(), "a withdraw, to see when it moves the money")).balance_cents or 0
        )
        if path != "/withdraw":
            end = bet.rollback() if path == "/rollback" else bet.deposit(bet.wager_cents)
            self.send(self.request(end, "its end"))
            due_cents += bet.wager_cents
        is_seen = self.cents_by_probe(player) == due_cents
        if path == "/withdraw":
            self.send(self.request(bet.rollback(), "its rollback"))
        return is_seen

    def _await_due(self, player: Player, pauses_seconds: Sequence[float]) -> float | None:
        """Return after how many seconds player-balance has what is due; None if it did not come in the pauses."""
        for waited, seconds in zip(accumulate(pauses_seconds), pauses_seconds, strict=True):
            self.pause(seconds)
            if self.balance_of(player) == player.due_cents:
                return waited
        self.observed.waited_in_vain = True
        return None

    def _late(self, player: Player, actual_cents: int, waited: float, shown_by: Carried | None) -> Found:
        """Return what is wrong where the money of a movement moved after its answer."""
        self.observed.late_seconds = max(self.observed.late_seconds, waited)
        told = f"{player.id} had {units(actual_cents)} at first, and {units(player.due_cents)} after {waited:g} s"
        return Found(told, shown_by, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.LATE)

    def cents_by_probe(self, player: Player, cents: int = 1, *, fresh: bool = False) -> int | None:
        """Return the balance that a small bet of *cents* and its rollback show; None if they do not."""
        bet = self.bet(player, cents)
        withdraw = self.request(bet.withdraw(), "a small withdraw, to see the balance by its answer")
        placed = self.send(replace(withdraw, fresh=fresh))
        if not placed.succeeded or placed.balance_cents is None:
            return None
        self.send(replace(self.request(bet.rollback(), "its rollback"), fresh=fresh))
        return placed.balance_cents + cents

    # A balance that is rounded.

    def _rounded_to(self, player: Player, actual_cents: int) -> str:
        """Return to what the due balance is rounded, if it is: a bet of what is missing ends in an even sum."""
        due_cents = player.due_cents
        off_cents = abs(actual_cents - due_cents)
        for step, name in _STEPS_CENTS.items():
            rest = due_cents % step
            if step in self.observed.exact_to or not rest or actual_cents % step or off_cents >= step:
                continue
            if self.cents_by_probe(player, rest) == due_cents:
                return name
        return ""

    def _is_unpadded(self, player: Player, actual_cents: int) -> bool:
        """Return whether *actual_cents* is what is due, written without the 0 before its cents: 0.9 for 0.09."""
        rest = player.due_cents % 100
        if not 0 < rest < 10 or actual_cents - player.due_cents != 9 * rest:
            return False
        return self.cents_by_probe(player, rest) == player.due_cents
