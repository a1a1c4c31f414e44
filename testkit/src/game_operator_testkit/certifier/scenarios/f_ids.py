"""Group F, hostile input: ids that are alike, long or odd (spec §2.4, docs/decisions/0010)."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from game_operator.codes import WebhookErrorCode as Code
from game_operator.models.webhooks import LONGEST_ID, MovingCall
from game_operator.protocol.exact_json import encode_json
from game_operator.protocol.webhook_reply import fold_code
from game_operator_testkit.certifier.engine.calls import moved_by
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.report.verdicts import KnownCause, Weight
from game_operator_testkit.certifier.scenarios.bodies import tolerated, with_raw
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import BetCalls

#: Pairs of words that a database may take for the same.
_ALIKE: Final = {
    "a composed and a decomposed letter": ("caf\u00e9", "cafe\u0301"),
    "a letter with an accent and one without": ("et\u00e9", "ete"),
    "a capital and a small letter": ("Bet", "bet"),
    "one emoji and another": ("\U0001f3b0", "\U0001f3b2"),
}
#: What it means if no other pairs are taken for the same.
_BY_PAIR: Final = {
    "a composed and a decomposed letter": KnownCause.NORMALISED,
    "an underscore, which is any letter to LIKE": KnownCause.PATTERN_IDS,
    "a percent sign, which is any text to LIKE": KnownCause.PATTERN_IDS,
}
#: How long an id is that a narrow column cuts or refuses: a UUID, and some usual widths.
_WIDTHS: Final = (36, 64, 100, 128, 255, LONGEST_ID)
#: How a wallet refuses the withdraw of a bet that it takes for another one.
_KNOWN_CODES: Final = frozenset({Code.DUPLICATE_TRANSACTION, Code.BET_ALREADY_CLOSED})
#: What means something to a database, a page, a log or a format; accepting it does no harm.
_SHARP: Final = {
    "an apostrophe": "it's",
    "SQL": "x' AND '1'='2",
    "SQL and quotes": 'x"; SELECT 1; --',
    "HTML": "<b onclick=alert(1)>&amp;</b>",
    "a line break": "x\n2026-01-01 INFO paid 100.00",
    "backslashes and formats": "x\\'\\n%s%d{0}${1}",
}
#: Pairs of ids that become one where somebody cleans or decodes them.
_CLEANED: Final = {
    "an HTML tag": ("r<b>7", "r7"),
    "an HTML entity": ("r&amp;7", "r&7"),
    "an apostrophe": ("r'7", "r7"),
    "a backslash": ("r\\7", "r7"),
    "a letter written as %41": ("r%41", "rA"),
    "a plus for a space": ("r+7", "r 7"),
    "an underscore, which is any letter to LIKE": ("rx7", "r_7"),
    "a percent sign, which is any text to LIKE": ("ry7", "r%7"),
}
#: Names that mean something to a language. They are rolled back, so that a later run knows them again. Those that an
#: object inherits and those that it does not take turns, so that both are among the first few.
_NAMES: Final = ("constructor", "null", "__proto__", "undefined", "toString", "true", "hasOwnProperty", "NaN")
_FEWEST_NAMES: Final = 3
#: What no database keeps, as JSON text.
_UNSTORABLE: Final = {"U+0000": "\\u0000", "half a character": "\\ud800"}
_FROM_RIGHT_TO_LEFT: Final = "\u200f\u05d4\u05d9\u05de\u05d5\u05e8 \u0627\u0644\u0631\u0647\u0627\u0646"


def f07(at: Stage) -> None:
    """Ids that look alike are different bets, odd and long ones come back as they are; too long ones should not."""
    _all_are_two(at, _ALIKE, Weight.CONTRACT_BROKEN)
    _round_trip(at, at.bet(bet_id=f"{at.fresh()}-{_FROM_RIGHT_TO_LEFT}"), "whose id runs from right to left")
    _check_width(at)
    for length in (LONGEST_ID + 1, 10_000):
        bet_id, title = f"{at.fresh('bet')}-".ljust(length, "x"), f"a withdraw whose id has {length:,} characters"
        request = with_raw(at, at.bet().withdraw(), "bet_id", encode_json(bet_id).decode(), title)
        tolerated(at, request, moves=-at.unit_cents, better="refused")


def _all_are_two(at: Stage, pairs: Mapping[str, tuple[str, str]], weight: Weight | None = None) -> None:
    """Hold that each pair of ids is two bets; what is found names all pairs that are not."""
    found: dict[str, Found] = {}
    for what, (one, another) in pairs.items():
        start = at.fresh("bet") + "-"
        try:
            _two_bets(at, start + one, start + another, what, weight)
        except Found as each:
            found[what] = each
            at.player.due_cents = at.balance_of(at.player)
    causes = {_BY_PAIR.get(each, "") for each in found}
    for first in found.values():
        if len(causes) == 1:
            first.cause = causes.pop() or first.cause
        if len(found) < len(pairs):
            first.reason += f". Of {len(pairs)} such pairs, it fails where ids differ in {' and in '.join(found)}"
        raise first


def _two_bets(at: Stage, one: str, another: str, what: str, weight: Weight | None = None) -> None:
    """Hold that bets with these ids are two bets: each is debited, and each is paid."""
    first, second = at.bet(bet_id=one), at.bet(bet_id=another)
    _placed(at, first, f"a withdraw whose id differs in {what} from the next one's", weight)
    at.accepts(second.withdraw(), f"the next withdraw, of another bet, whose id differs in {what}")
    for bet, which in ((second, "second"), (first, "first")):
        at.accepts(bet.deposit(bet.wager_cents), f"the deposit of the {which}")


def _check_width(at: Stage) -> None:
    """Hold that ids of up to 256 characters are kept whole, the shorter ones first."""
    start, fits = f"{at.fresh('bet')}-", 0
    for width in _WIDTHS[2::3] if at.observed.is_slow else _WIDTHS:
        if width <= len(start):
            continue
        bet = at.bet(bet_id=start.ljust(width - 1, "x") + "a")
        for call in (bet.withdraw(), bet.deposit(bet.wager_cents)):
            _is_kept(at, call, f"whose id has {width} characters", width, fits)
        fits = width
        cut = f", as if ids were cut before their end, at {fits} characters or fewer"
        at.suspects = {at.unit_cents: (KnownCause.NARROW, cut)}
    bet = at.bet(bet_id=start.ljust(LONGEST_ID - 1, "x") + "b")
    how = f"whose id differs in the last of {LONGEST_ID} characters"
    _is_kept(at, bet.withdraw(), how, LONGEST_ID, fits)
    _is_kept(at, bet.withdraw(), f"{how}, again", LONGEST_ID, fits, moves=0)
    at.suspects = {}
    _is_kept(at, bet.deposit(bet.wager_cents), how, LONGEST_ID, fits)


def _is_kept(at: Stage, call: MovingCall, how: str, width: int, fits: int, *, moves: int | None = None) -> None:
    heard = at.send(at.request(call, f"a {call.operation} {how}"))
    at.check_unlimited(heard, asked=True)
    if not heard.succeeded:
        raise _too_narrow(at, heard, width, fits)
    at.check_moved(heard, at.player, moved_by(call) if moves is None else moves)


def _too_narrow(at: Stage, heard: Carried, width: int, fits: int) -> Found:
    """Return what is wrong where an id of *width* characters does not fit, and one of *fits* does."""
    if heard.reply is None and at.send(heard.request).reply is not None:
        at.check_reply(heard)  # Its length is not the reason.
    if at.cause_of_refusal(heard) == KnownCause.HALF_DONE:
        at.check_success(heard)
    if fits and heard.code in _KNOWN_CODES:
        told = f"refused with {heard.code}, as if it were a bet before, whose id begins alike: ids seem to be cut"
        return Found(told, heard, weight=Weight.CONTRACT_BROKEN, cause=KnownCause.NARROW)
    what = "the bet's id"
    short_tx = at.bet(bet_id=f"{at.fresh('b')}-".ljust(width, "x"), tx_id=at.fresh("tx"))
    if at.send(at.request(short_tx.withdraw(), f"one of {width} characters, with a short tx_id")).succeeded:
        at.send(at.request(short_tx.rollback(), "its rollback"))
        what = f"the tx_id of {len(at.bet(bet_id='x' * width).withdraw().tx_id)} characters"
    answer = heard.code or (f"HTTP {heard.status}" if heard.status else heard.problem)
    longest = f"; one of {fits} characters is accepted" if fits else ""
    told = f"answered {answer}, because of {what}{longest}"
    weight = Weight.CONTRACT_BROKEN if heard.request.path == "/withdraw" else Weight.MONEY_LOST
    return Found(told, heard, weight=weight, cause=KnownCause.NARROW)


def f08(at: Stage) -> None:
    """Quotes, SQL, HTML and line breaks in an id are characters like any other; what no database keeps should not."""
    for what, word in _SHARP.items():
        _round_trip(at, at.bet(bet_id=f"{at.fresh('bet')}-{word}"), f"with {what} in its id", Weight.MONEY_LOST)
    _all_are_two(at, _CLEANED)
    for what, text in _UNSTORABLE.items():
        bet = at.bet()
        request = with_raw(at, bet.withdraw(), "bet_id", f'"{bet.bet_id}-{text}"', f"a withdraw with {what} in its id")
        tolerated(at, request, moves=-bet.wager_cents, better="refused")


def _round_trip(at: Stage, bet: BetCalls, told: str, weight: Weight = Weight.CONTRACT_BROKEN) -> None:
    """Hold that the wallet finds a bet again by its id."""
    first = _placed(at, bet, f"a withdraw {told}", weight)
    at.again(bet.withdraw(), first, f"the same withdraw {told} again")
    at.accepts(bet.deposit(bet.wager_cents), f"a deposit {told}")


def _placed(at: Stage, bet: BetCalls, title: str, weight: Weight | None = Weight.CONTRACT_BROKEN) -> Carried:
    """Place *bet*. If it is refused for its letters, no money is lost, but a game cannot be played."""
    heard = at.ask(bet.withdraw(), title)
    at.check_unlimited(heard, asked=True)
    at.check_success(heard, weight)
    at.check_moved(heard, at.player, -bet.wager_cents)
    return heard


def f12(at: Stage) -> None:
    """Each of two ids that are equal as numbers is a bet, with its own wager, and its end is its own."""
    number = int.from_bytes(sha256(at.prefix.encode()).digest()[:4]) % 900_000_000 + 100_000_000
    bets: list[tuple[BetCalls, str]] = []
    for what, (one, another) in _equal_numbers(number).items():
        same = f"{another}, which is the same as a number as {one} ({what})"
        bets += [(at.bet(bet_id=one, tx_id=one), one), (at.bet(bet_id=another, tx_id=another), same)]
    at.accepts_all([(bet.withdraw(), f"a withdraw of the bet {told}") for bet, told in bets])
    # Rolled back, all: a reconciliation cannot tell by such an id that no provider knows the bet.
    at.accepts_all([(bet.rollback(), f"the rollback of the bet {told}") for bet, told in bets])


def _equal_numbers(number: int) -> Mapping[str, tuple[str, str]]:
    """Return pairs of ids that are different texts, and equal once they are numbers; no other run has them."""
    # Above 2^53 two odd neighbours are one float.
    large = 2**53 + 2 * number
    return {
        "a leading zero": (f"{number}", f"0{number}"),
        "an exponent": (f"{number}000", f"{number}e3"),
        "a point": (f"1{number}", f"1{number}.0"),
        "beyond 2^53": (f"{large}", f"{large + 1}"),
        "beyond 64 bits": (f"{number}{'0' * 20}1", f"{number}{'0' * 20}2"),
        "both are 0": (f"0e{number}", f"0e{number + 1}"),
        "both are infinite": (f"{number}e999", f"{number + 1}e999"),
        "hexadecimal": (f"{number + 7}", f"0x{number + 7:x}"),
    }


def f13(at: Stage) -> None:
    """A bet may be named like a member that every object has, or like no value at all."""
    is_new = False
    for name in _NAMES[: at.observed.times(len(_NAMES), _FEWEST_NAMES)]:
        bet = at.bet(bet_id=name, wager_cents=1, tx_id=at.fresh("tx"))
        first = at.ask(bet.withdraw(), f"a withdraw of the bet {name!r}")
        if first.code == fold_code(Code.BET_ROLLED_BACK, at.profile):
            # An earlier run has placed it and rolled it back, and with it all names before.
            if is_new:
                raise Found(f"refused with {first.code}, and no run has placed it", first)
            continue
        is_new = True
        at.check_unlimited(first, asked=True)
        at.check_moved(first, at.player, -1)
        at.again(bet.withdraw(), first, f"the same withdraw of the bet {name!r} again")
        at.accepts(bet.rollback(), f"the rollback of the bet {name!r}")
