"""Whether an answer is a reply of spec §2.1; and if not, or if none came, why."""

from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator_testkit.certifier.engine.calls import Asked, Calls
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.engine.wire import why_no_reply
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import Manner, Request

#: Whose signatures a wallet need not accept.
_STRANGERS: Final = (None, "stranger", "retired")
#: What a profile may say of the HTTP status of a call that no known key signed.
_UNAUTHENTICATED: Final = (200, 401)
#: HTTP statuses by which a framework says that nobody serves a path, or not with this method.
_NO_SUCH_ROUTE: Final = frozenset({404, 405})
#: Before a wallet that accepts no connection is asked again: it may be starting.
_PAUSES_SECONDS: Final = (0.1, 0.4, 1.0, 1.5)


class Replies(Calls):
    """Calls that are answered by a reply, or end the scenario."""

    def ask(self, what: Asked, title: str = "", *, status: int = 200, due: str | None = None) -> Carried:
        """Send *what*, and hold that a reply of spec §2.1 came, with HTTP status *status* (spec §4.1)."""
        before = self.observed.last
        heard = self.send(what if isinstance(what, Request) else self.request(what, title), due=due)
        if not heard.status:
            raise self._unanswered(heard, before)
        self.check_reply(heard, status=status)
        return heard

    def check_reply(self, heard: Carried, *, status: int = 200) -> None:
        """Hold that *heard* is a reply of spec §2.1; note another HTTP status than *status* (spec §4.1)."""
        if not heard.status:
            raise self._unanswered(heard, None)
        if heard.reply is None:
            cause, told = why_no_reply(heard)
            if cause is KnownCause.NO_REPLY and self._is_a_frameworks(heard):
                cause, told = KnownCause.FRAMEWORK, heard.problem
            told = f"answered HTTP {heard.status}, which is not a reply of spec §2.1: {told}"
            raise Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=cause)
        if heard.status != status:
            kind = "a SUCCESS" if heard.succeeded else f"the refusal {heard.code}"
            # The specification asks for 200 always, so a 200 is only worth advice where the profile expects another.
            weight = Weight.ADVICE if heard.status == 200 else Weight.CONTRACT_BROKEN
            told = f"answered {kind} with HTTP {heard.status}, and it must be {status}"
            is_other = heard.code == WebhookErrorCode.INVALID_SIGNATURE and heard.status in _UNAUTHENTICATED
            self.note(told, weight, KnownCause.UNAUTHENTICATED if is_other else KnownCause.STATUS, heard)

    def _is_a_frameworks(self, heard: Carried) -> bool:
        """Return whether *heard* refuses a body that a scenario wrote, probably before the wallet; nothing moved."""
        is_odd = heard.request.body not in self._calls
        if not is_odd or not 400 <= heard.status < 500 or heard.status in _NO_SUCH_ROUTE:
            return False
        check = self._sent_once(self.balance_request("a balance check, to see who answers"))
        return check.succeeded and check.balance_cents == self.player.due_cents

    def _unanswered(self, heard: Carried, before: tuple[Carried, str] | None) -> Found:
        """
        Return what is wrong where no answer came.

        A call that could not be sent shows what the call *before* it did to the wallet; of calls at once nobody knows.
        """
        cause, told = KnownCause.NO_ANSWER, heard.problem
        if heard.unreachable and before is not None:
            last, scenario = before
            if not last.status:
                # An earlier call did this to the wallet, and its scenario reports it.
                return Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=cause)
            where = "" if scenario == self.prefix else f" in {scenario.rpartition('-')[2]}"
            told = f"after {last.request.title}{where} was answered, the wallet accepts no connection: {told}"
            place = last.place if not where else heard.place
            return Found(told, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.GONE, place=place)
        if "wire" in self.supplied and not heard.timed_out and heard.request.manner is Manner.WHOLE:
            cause, told = self._why_it_broke(heard.problem)
        if cause is KnownCause.GONE and before is not None and before[0].status:
            # Its connection may have broken only because the process had ended already.
            told = self._broken_off() or f"{told}; the call before it, {before[0].request.title}, was answered"
        seal = heard.request.seal
        is_forged = seal.key in _STRANGERS or seal.over is not None or seal.literal is not None
        if cause is KnownCause.NO_ANSWER and is_forged:
            cause = KnownCause.HUNG_UP
        return Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=cause)

    def _broken_off(self) -> str:
        """Return what is wrong if a request of this scenario, which had no end, may have ended the process."""
        broken_off = self.observed.broken_off
        if broken_off is None or broken_off[1] != self.prefix:
            return ""
        title = broken_off[0].request.title
        return f"no answer, and since then the wallet accepts no connection. Before that, the certifier sent {title}"

    def _why_it_broke(self, problem: str) -> tuple[KnownCause, str]:
        """Ask the wallet on a new connection, and return why a connection broke before the answer."""
        check = self.balance_request("a balance check, to see whether the wallet still answers")
        first, was_gone = self._sent_once(check), False
        for seconds in _PAUSES_SECONDS:
            # A process that ends accepts connections for a moment longer, and another may take its place.
            if first.status or first.timed_out or self.observed.is_gone:
                break
            was_gone = was_gone or first.unreachable
            self.pause(seconds)
            first = self._sent_once(check)
        if first.unreachable:
            self.observed.is_gone = True
            return KnownCause.GONE, "no answer, and since then the wallet accepts no connection"
        if was_gone:
            return KnownCause.GONE, "no answer, and for a moment the wallet accepted no connection; it runs again"
        return KnownCause.NO_ANSWER, problem
