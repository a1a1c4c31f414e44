"""Group F, hostile input: ids in any letters, which are compared as they are and mean nothing (assumed)."""

from dataclasses import replace
from typing import Final

from game_operator.certify.engine.scenario import Found, Play, scenario
from game_operator.certify.engine.stage import Asking, Judging, Stage
from game_operator.certify.report.verdicts import Weight
from game_operator.certify.scenarios.leniency import better_refused
from game_operator.certify.scenarios.malformed import of_length, with_raw
from game_operator.models.webhooks import LONGEST_ID
from game_operator.provider.bets import Bet

#: Pairs of words that a database may take for the same.
_ALIKE: Final = {
    "a composed and a decomposed letter": ("caf\u00e9", "cafe\u0301"),
    "a letter with an accent and one without": ("et\u00e9", "ete"),
    "a capital and a small letter": ("Bet", "bet"),
    "one emoji and another": ("\U0001f3b0", "\U0001f3b2"),
    "the last of 256 characters": ("a", "b"),
}
#: What means something to a database, a page, a log or a format; none of it does harm where it is let in.
_SHARP: Final = {
    "an apostrophe": "it's",
    "SQL": "x' AND '1'='2",
    "SQL and quotes": 'x"; SELECT 1; --',
    "HTML": "<b onclick=alert(1)>&amp;</b>",
    "a line break": "x\n2026-01-01 INFO paid 100.00",
    "backslashes and formats": "x\\'\\n%s%d{0}${1}",
}
#: What no database keeps, as JSON text.
_UNSTORABLE: Final = {"U+0000": "\\u0000", "half a character": "\\ud800"}
_FROM_RIGHT_TO_LEFT: Final = "\u200f\u05d4\u05d9\u05de\u05d5\u05e8 \u0627\u0644\u0631\u0647\u0627\u0646"


@scenario(
    "F07",
    "ids in any letters, and long ones",
    Weight.MONEY_LOST,
    rests_on="spec §2.4, decision 0010",
    means="Two bets are taken for one: the second is not paid for, or its win is not paid.",
    mend="Compare ids byte for byte, with a binary collation (utf8mb4_bin in MySQL, "
    'COLLATE "C" in PostgreSQL); never trim, fold, normalise or cut them. Make the columns long enough for ids of 256 '
    "characters, and answer INVALID_REQUEST to longer ones before they get there.",
    stage="hostile",
)
def f07(at: Stage) -> Play:
    """Ids that look alike are different bets, odd and long ones come back as they are; too long ones should not."""
    for what, (one, another) in _ALIKE.items():
        start = at.fresh("bet") + "-"
        if what.startswith("the last"):
            start = start.ljust(LONGEST_ID - 1, "x")
        yield from _two_bets(at, f"id differs in {what}", _called(at, start + one), _called(at, start + another))
    yield from _round_trip(at, _called(at, f"{at.fresh()}-{_FROM_RIGHT_TO_LEFT}"), "whose id runs from right to left")
    yield from _round_trip(at, _called(at, f"{at.fresh()}-".ljust(100, "x")), "whose id has 100 characters")
    for length in (LONGEST_ID + 1, 10_000):
        bet = at.bet()
        yield from better_refused(at, of_length(at, bet.withdraw(), length), moves=-bet.wager_cents)


@scenario(
    "F08",
    "ids that mean something elsewhere",
    Weight.MONEY_LOST,
    rests_on="spec §2.4, decision 0010",
    means="Whoever can choose an id can read or change the wallet's tables and logs, or place bets that nobody can "
    "settle.",
    mend="Pass values to the database as parameters, never inside the SQL, and escape them where they are shown. "
    "Answer INVALID_REQUEST to an id with U+0000 or half a surrogate pair in it: no database keeps them as they are.",
    stage="hostile",
)
def f08(at: Stage) -> Play:
    """Quotes, SQL, HTML and line breaks in an id are characters like any other; what no database keeps should not."""
    for what, word in _SHARP.items():
        bet = _called(at, f"{at.fresh('bet')}-{word}")
        yield from _round_trip(at, bet, f"with {what} in its id", Weight.MONEY_LOST)
    for what, text in _UNSTORABLE.items():
        bet = at.bet()
        request = with_raw(at, bet.withdraw(), "bet_id", f'"{bet.bet_id}-{text}"', f"a withdraw with {what} in its id")
        yield from better_refused(at, request, moves=-bet.wager_cents)


def _two_bets(at: Stage, told: str, one: Bet, another: Bet) -> Judging:
    """Hold that two bets are two, though their ids look alike."""
    yield from _placed(at, one, f"a withdraw whose {told} from the next one's")
    yield from at.accepts(another.withdraw(), "the next withdraw, of another bet", moves=-another.wager_cents)
    for bet, which in ((another, "second"), (one, "first")):
        yield from at.accepts(bet.deposit(bet.wager_cents), f"the deposit of the {which}", moves=bet.wager_cents)


def _round_trip(at: Stage, bet: Bet, told: str, weight: Weight = Weight.CONTRACT_BROKEN) -> Judging:
    """Hold that the wallet finds a bet again by its id."""
    first = yield from _placed(at, bet, f"a withdraw {told}", weight)
    yield from at.again(bet.withdraw(), first, f"the same withdraw {told} again")
    yield from at.accepts(bet.deposit(bet.wager_cents), f"a deposit {told}", moves=bet.wager_cents)


def _placed(at: Stage, bet: Bet, title: str, weight: Weight = Weight.CONTRACT_BROKEN) -> Asking:
    """Place *bet*. If it is refused for its letters, no money is lost, but a game cannot be played."""
    heard = yield from at.hear(bet.withdraw(), title)
    if not heard.succeeded:
        told = f"{title}: refused with {heard.code}, and SUCCESS was due"
        raise Found(told, weight, place=heard.place)
    at.player.due_cents -= bet.wager_cents
    yield from at.check_told(heard, at.player)
    return heard


def _called(at: Stage, bet_id: str) -> Bet:
    # A round is not what is tried, and one with a name as long would be too long.
    return replace(at.bet(bet_id=bet_id), round_id=at.fresh("round"))
