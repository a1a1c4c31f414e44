"""Wallets whose mistake looks like another one, until the sign, the order or the code of an answer is looked at."""

from dataclasses import replace

from wallet_by_hand import SUCCESS, Call, Case, PlainWallet, Reply

from testkit.tests.certifier.wrong_wallets.races import is_alone
from testkit.tests.certifier.wrong_wallets.registry import wrong

_HOUR_MILLIS = 3_600_000
_MOST_CENTS = 2**31 - 1


@wrong("debits every sixth withdraw among others once more", must="D01", may="*", first="more than their wagers")
class DebitsSomeMoreAmongOthers(PlainWallet):
    _withdraws = 0

    def _debit(self, case: Case) -> None:
        super()._debit(case)
        self._withdraws += not is_alone()
        if not is_alone() and self._withdraws % 6 == 0:
            update = "UPDATE accounts SET cents = cents - ? WHERE player_id = ?"
            self._database.execute(update, (case.call.cents, case.call.player_id))


@wrong("dates refusals five hours back, as a local time", must="A06", may="*", first="another clock")
class DatesRefusalsInLocalTime(PlainWallet):
    def _reply(self, case: Case, outcome: str) -> Reply:
        reply = super()._reply(case, outcome)
        is_dated = outcome != SUCCESS and reply.at_millis is not None
        return replace(reply, at_millis=(reply.at_millis or 0) - 5 * _HOUR_MILLIS) if is_dated else reply


@wrong("takes a wager that it has refused with the player's next movement", must="B06", may="*",
       first="with a later call")  # fmt: skip
class TakesRefusedWagersLater(PlainWallet):
    _left_over: tuple[str, int] | None = None

    def _carry_out(self, call: Call) -> Reply:
        left_over = self._left_over
        if left_over is not None and call.operation != "player-balance":
            self._left_over = None
            update = "UPDATE accounts SET cents = cents - ? WHERE player_id = ?"
            with self._lock:
                self._database.execute(update, (left_over[1], left_over[0]))
        return super()._carry_out(call)

    def _place(self, case: Case) -> str:
        code = super()._place(case)
        if code == "INSUFFICIENT_BALANCE":
            self._left_over = case.call.player_id, case.call.cents
        return code


@wrong("answers SUCCESS to a credit of more than 32 bits of cents, and rolls it back", must="G03",
       first="it is not stored")  # fmt: skip
class LosesLargeCredits(PlainWallet):
    def _reply(self, case: Case, outcome: str) -> Reply:
        reply = super()._reply(case, outcome)
        if outcome == SUCCESS and case.call.operation == "deposit" and case.call.cents > _MOST_CENTS:
            self._database.execute("ROLLBACK")
            self._database.execute("BEGIN IMMEDIATE")
        return reply


class _Failing(PlainWallet):
    """Refuses some calls among others with a code that is not true."""

    code = ""
    _calls = 0

    def _refuses(self) -> bool:
        self._calls += not is_alone()
        return not is_alone() and self._calls % 5 == 0


@wrong("finds no player whose account another call has locked", must="D05", may="*",
       first="a known player is not found while other calls")  # fmt: skip
class SkipsLockedPlayers(_Failing):
    def _carry_out(self, call: Call) -> Reply:
        return Reply("PLAYER_NOT_FOUND") if self._refuses() else super()._carry_out(call)


@wrong("refuses some signatures among others, as by one verifier for all threads", must="D05", may="*",
       first="with INVALID_SIGNATURE when several come at once")  # fmt: skip
class SharesItsVerifier(_Failing):
    def _is_authentic(self, headers: list[tuple[str, str]], body: bytes) -> bool:
        return super()._is_authentic(headers, body) and not self._refuses()
