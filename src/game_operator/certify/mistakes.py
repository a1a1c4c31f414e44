"""Mistakes that show in many scenarios: what each means, and how it is mended, whatever scenario it shows in."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = [
    "FAILS",
    "NO_ANSWER",
    "NO_BALANCE",
    "NO_REPLY",
    "OTHER_CODES",
    "STATUS",
    "STEADY",
    "WRONG_BALANCE",
    "Mistake",
    "mistake_of",
]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in words, as a scenario has them."""

    title: str
    means: str
    mend: str


STATUS: Final = "another HTTP status"
NO_ANSWER: Final = "no answer"
NO_REPLY: Final = "no reply of spec §2.1"
NO_BALANCE: Final = "no balance"
WRONG_BALANCE: Final = "tells a wrong balance"
FAILS: Final = "answers SYSTEM_ERROR"
OTHER_CODES: Final = "other codes"
STEADY: Final = "SUCCESS where nothing was done"

_MISTAKES: Final = MappingProxyType(
    {
        STATUS: Mistake(
            "answers with another HTTP status than 200",
            "The service takes any other status for a failure. It repeats or gives up calls that were answered, and "
            "nobody can say what became of the money.",
            "Always answer HTTP 200, for refusals too: the outcome is in type and code (spec §4.1, §7.1).",
        ),
        NO_ANSWER: Mistake(
            "calls without an answer",
            "The service does not know what became of the call. It repeats it, perhaps for hours, and a player waits.",
            "Look for the call in the wallet's log: a crash, a lock that nobody releases, a query without a limit of "
            "time. Answer SYSTEM_ERROR when your own code fails.",
        ),
        NO_REPLY: Mistake(
            "answers that are no reply",
            "The service cannot read the answer, so it does not know whether money moved: it repeats the call, or "
            "gives it up.",
            "Answer a JSON object with type, balance (a number in currency units, exact to the cent), timestamp (whole "
            "Unix milliseconds) and, with ERROR, code (spec §2.1).",
        ),
        NO_BALANCE: Mistake(
            "a balance check that is refused",
            "The service cannot show the player any balance, and nothing else can be checked.",
            "Answer /player-balance of a known player with SUCCESS and the balance, whatever else is going on.",
        ),
        WRONG_BALANCE: Mistake(
            "tells another balance than there is",
            "The money is right, and players are shown what they do not have, or miss what they do.",
            "Read the balance that you answer with in the call's own transaction, after its movement.",
        ),
        FAILS: Mistake(
            "fails where it must carry out",
            "A call that must be carried out ends in SYSTEM_ERROR. The service repeats it, perhaps for hours, and the "
            "money waits until somebody mends the wallet.",
            "Look for the exception in the wallet's log. A constraint that is violated by a repeat is a common one: "
            "look the call up first, and answer what you answered.",
        ),
        OTHER_CODES: Mistake(
            "other codes than the assumed ones",
            "The specification shows no list of codes. If the service knows other words than you do, it may repeat "
            "what is final, or give up what is not.",
            "Agree on the list with the provider, and answer one code for each reason.",
        ),
        STEADY: Mistake(
            "SUCCESS where nothing was done",
            "No money moves wrongly. The provider may expect an ERROR for a bet that was never debited.",
            "Agree on it with the provider; the profile's unknown_rollback says which is meant.",
        ),
    }
)


def mistake_of(cause: str) -> Mistake | None:
    """Return the mistake behind a note's *cause*, which begins with one of the words above; None if it is none."""
    return next((mistake for words, mistake in _MISTAKES.items() if cause.startswith(words)), None)
