"""Mistakes that show in many scenarios: what each means, and how it is mended, whatever scenario it shows in."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = [
    "CRASH",
    "FAILS",
    "FRACTIONS",
    "NO_ANSWER",
    "NO_BALANCE",
    "NO_REPLY",
    "OTHER_CODES",
    "OUT_OF_TIME",
    "SCALE",
    "SHARED",
    "STATUS",
    "STEADY",
    "TURNED_AWAY",
    "TURNING_AWAY",
    "UNREADABLE",
    "UNSERVED",
    "WRONG_BALANCE",
    "Mistake",
    "hides_money",
    "is_seen_in_the_plainest",
    "mistake_of",
    "slug_of",
]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in words, as a scenario has them."""

    title: str
    means: str
    mend: str


CRASH: Final = "fails with HTTP"
STATUS: Final = "another HTTP status"
NO_ANSWER: Final = "no answer"
NO_REPLY: Final = "no reply of spec §2.1"
NO_BALANCE: Final = "no balance"
WRONG_BALANCE: Final = "tells a wrong balance"
FAILS: Final = "answers SYSTEM_ERROR"
FRACTIONS: Final = "a balance finer than a cent"
OTHER_CODES: Final = "other codes"
OUT_OF_TIME: Final = "out of time"
SCALE: Final = "a hundredfold"
SHARED: Final = "another player's balance"
STEADY: Final = "SUCCESS where nothing was done"
TURNED_AWAY: Final = "turned away with HTTP"
UNREADABLE: Final = "every withdraw is INVALID_REQUEST"
UNSERVED: Final = "batches are not served"

#: HTTP statuses of whoever stands before a wallet.
TURNING_AWAY: Final = frozenset({401, 403, 407, 429})

#: Behind these nobody knows what became of the money: the scenario could not be judged.
_HIDES_MONEY: Final = frozenset({CRASH, FRACTIONS, NO_ANSWER, NO_REPLY, NO_BALANCE, OUT_OF_TIME, TURNED_AWAY})
#: One odd call that ends so is its scenario's own mistake; if the plainest bet does, it is the wallet's.
_SEEN_IN_THE_PLAINEST: Final = frozenset({SHARED, UNREADABLE})

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
            "time. If it is only so with many calls at once, lengthen the queue of connections that the server accepts "
            "(its listen backlog). Answer SYSTEM_ERROR when your own code fails.",
        ),
        CRASH: Mistake(
            "fails with an HTTP status of 500 or more",
            "The service does not know what became of the call, so it repeats it, perhaps for hours, while a player "
            "waits.",
            "Look for the exception in the wallet's log: behind each call it may be another one. Catch what your own "
            "code raises, roll its transaction back, and answer HTTP 200 with SYSTEM_ERROR (spec §4.1).",
        ),
        NO_REPLY: Mistake(
            "answers that are no reply",
            "The service cannot read the answer, so it does not know whether money moved: it repeats the call, or "
            "gives it up.",
            "Answer a JSON object with type, balance (a number in currency units, exact to the cent), timestamp (whole "
            "Unix milliseconds) and, with ERROR, code (spec §2.1).",
        ),
        FRACTIONS: Mistake(
            "fractions of a cent",
            "A player has what nobody can pay, and the service can show no balance of theirs; what becomes of it, and "
            "of the bets that follow, nobody knows.",
            "Refuse an amount that is no whole number of cents with INVALID_REQUEST, keep balances as whole cents, and "
            "tell them with two decimals (spec §2.1; assumed, decision 0010). Then set right the account that was left "
            "so.",
        ),
        TURNED_AWAY: Mistake(
            "calls that are turned away",
            "Something answers in the wallet's place: a limit of requests, a firewall, a login. The service cannot "
            "read that, so it repeats the call, or gives it up, and nobody can say what became of the money.",
            "Let the service's calls through: except the wallet's paths, or the addresses that the service calls from, "
            "from limits of requests and from logins. A refusal of the wallet's own is HTTP 200 with a reply that says "
            "ERROR and why (spec §4.1, §7.1).",
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
            "Agree on it with the provider; the profile of this run says which is meant.",
        ),
        OUT_OF_TIME: Mistake(
            "the run's time was used up",
            "Not all was tried, so nobody knows whether the wallet is right.",
            "Give the run more time (deadline), or find out why the wallet's answers take so long.",
        ),
        SCALE: Mistake(
            "cents and currency units are mixed up",
            "A bet costs a hundred times its wager, or a hundredth of it; or players are shown a hundred times what "
            "they have.",
            "Amounts in calls are whole cents: 500 is 5.00 (assumed, decision 0010). The balance in an answer is in "
            "currency units: 95.00, and not 9500 (spec §2.1).",
        ),
        SHARED: Mistake(
            "one player's calls move another's balance",
            "One player pays for the other's bets, or is paid what the other won.",
            "Look the account up by the player_id of each call; keep no balance in a variable that all calls share.",
        ),
        UNREADABLE: Mistake(
            "every withdraw is refused as INVALID_REQUEST",
            "No player can bet. The wallet does not recognise the calls that it is sent.",
            "See what the wallet's log says. If it knows its game instances, name one of them for this run "
            "(--instance, instance_id). If its bodies have other names, pass the profile that it reads them by.",
        ),
        UNSERVED: Mistake(
            "batches of deposits are not served",
            "The profile says that the service sends deposits in batches, and the wallet has no such path: those "
            "players are not paid.",
            "Serve /deposit-batch, or leave deposit_batch out of the profile if your provider sends none.",
        ),
    }
)


def slug_of(cause: str) -> str:
    """Return the words above with which a note's *cause* begins, or *cause* itself."""
    return next((words for words in _MISTAKES if cause.startswith(words)), cause)


def mistake_of(cause: str) -> Mistake | None:
    """Return the mistake behind a note's *cause*; None if it is none of these."""
    return _MISTAKES.get(slug_of(cause))


def is_seen_in_the_plainest(cause: str) -> bool:
    """Return whether this cause is the wallet's only if the plainest bet fails by it, and else the scenario's own."""
    return slug_of(cause) in _SEEN_IN_THE_PLAINEST


def hides_money(cause: str) -> bool:
    """Return whether a scenario that ended by *cause* says nothing about money."""
    return slug_of(cause) in _HIDES_MONEY
