"""What ends a scenario before its last step."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from game_operator_testkit.certifier.report.verdicts import KnownCause, Symptom, SymptomKind, Weight
from game_operator_testkit.provider.delivery import Carried


class Found(Exception):  # noqa: N818 - it is a finding, not an error: nothing goes wrong in the certifier
    """
    Ends a scenario: something is wrong with the wallet.

    Args:
        reason: What is wrong.
        heard: The answer that shows it; its request's title stands before the reason.
        weight: What it costs; None for what the scenario says.
        cause: The words of a mistake that shows in many scenarios.
        place: Which of the scenario's exchanges shows it, if the reason names none.
        symptom: What the wallet did to which operation; for a refusal it is known.
    """

    def __init__(
        self,
        reason: str,
        heard: Carried | None = None,
        *,
        weight: Weight | None = None,
        cause: str = "",
        place: int | None = None,
        symptom: Symptom | None = None,
    ) -> None:
        self.reason: str = reason if heard is None else f"{heard.request.title}: {reason}"
        super().__init__(self.reason)
        self.weight: Weight | None = weight
        self.cause: str = cause
        #: Where a call was refused, nothing is paid twice.
        self.is_refusal: bool = heard is not None and heard.code is not None
        self.place: int | None = place if heard is None else heard.place
        self.symptom: Symptom | None = symptom
        if symptom is None and heard is not None and heard.code is not None:
            self.symptom = symptom_of(heard, SymptomKind.REFUSED, heard.code)


def symptom_of(heard: Carried, kind: SymptomKind, code: str = "") -> Symptom:
    """Return what the wallet did to an operation, for failures of one mistake to be found: a batch pays deposits."""
    return Symptom(heard.request.path.removesuffix("-batch"), kind, code)


def turned_away(heard: Carried) -> Found:
    """Return what is wrong where a proxy, a firewall or a login answers in the wallet's place."""
    told = f"turned away with HTTP {heard.status}"
    return Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.TURNED_AWAY)


class NotTried(Exception):  # noqa: N818 - see above
    """Ends a scenario: it cannot be tried on this wallet, and this is why."""


class Limited(NotTried):
    """Ends a scenario: a limit of the wallet's refused a wager, as *heard*, and another one may be accepted."""

    def __init__(self, told: str, heard: Carried) -> None:
        super().__init__(told)
        self.heard: Carried = heard


class Undone(NotTried):
    """Ends a scenario: something that the user supplied had to be done to the wallet, and failed."""


class Stopped(NotTried):
    """Ends a scenario: the run was stopped."""


@contextmanager
def undone_by_errors(problem: str) -> Iterator[None]:
    """Turn an error of the user's own code, which may raise anything, into ``Undone`` that begins with *problem*."""
    try:
        yield
    except NotTried:
        raise
    except Exception as failed:
        raise Undone(f"{problem}: {type(failed).__name__}: {failed}") from failed


class Allowance:
    """How long a run may take: *seconds* in all, or until *stopping* is set."""

    def __init__(self, seconds: float, stopping: Event | None = None) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._stopping = stopping or Event()

    def check(self, cut: str) -> None:
        """Raise ``Stopped``, or ``Found`` if the time is used up; *cut* says what becomes of a scenario then."""
        if self._stopping.is_set():
            raise Stopped(f"{cut}: the run was stopped")
        if time.monotonic() > self._until:
            told = f"{cut}: the run's {self._seconds:g} s were used up"
            raise Found(told, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.OUT_OF_TIME)

    @contextmanager
    def grace(self, seconds: float) -> Iterator[None]:
        """Allow *seconds* in any case, even if the run was stopped: the players' money must be restored."""
        until, stopping = self._until, self._stopping
        self._until, self._stopping = max(until, time.monotonic() + seconds), Event()
        try:
            yield
        finally:
            self._until, self._stopping = until, stopping
