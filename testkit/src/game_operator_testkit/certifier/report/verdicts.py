"""What a certification finds: a verdict for each scenario, and mistakes that show in many (mistakes.toml)."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final

from game_operator.models.webhooks import Reply
from game_operator.protocol.http import HeaderPairs


class KnownCause(StrEnum):
    """The mistakes of mistakes.toml, by the words with which a note's cause begins."""

    AS_BADLY_SIGNED = "refused as badly signed among others"
    AS_KNOWN = "refused as known among others"
    AMONG = "refused among others"
    ANY_CASE = "names of members in any case"
    AMOUNT = "a bet is refused because of its amount"
    AT_TIMES = "wrong now and then"
    BUSY = "refused beside other calls"
    CHARSET = "a media type with a charset"
    CHUNKS = "bodies in chunks"
    PIECES = "only the first part of a body"
    BY_PATTERN = "a player whom nobody opened is found"
    COLLIDES = "keys that collide"
    CLOSED_IN_USE = "a connection in use that was closed"
    DEBITED_MORE = "more is debited at once"
    CUT_SHORT = "an answer that ends early"
    CORE_CODES = "the profile's codes"
    CRASH = "fails with HTTP"
    ESCAPES = "escapes are not read"
    EARLY_CODE = "the profile's early_deposit_code"
    ENDED_WITH_ANOTHER = "a bet that ended with another"
    EXCEPTION = "the text of an exception"
    FIELD_NAMES = "the profile's fields"
    FRAMEWORK = "answered by a framework"
    FLOAT = "a balance through a float"
    NORMALISED = "ids that are normalised"
    PATTERN_IDS = "ids that are looked up as patterns"
    NEEDS_TX_ID = "refused without a tx_id"
    NO_FUNDS = "refused for funds that are there"
    NO_TX_ID = "a call without a tx_id is not known again"
    NOT_DEBITED = "a bet that is not debited"
    NOT_ENCLOSED = "no transaction around a call"
    NOT_COMMITTED = "answered, and at times not committed"
    NOT_STORED = "answered, and not stored"
    NOT_KEPT = "a record is sometimes not kept"
    NOW_AND_THEN = "answers that are missing at times"
    OFF = "a balance that is off"
    OTHER_CLOCK = "another clock"
    OLD_TIME = "a balance of now with an old time"
    ONLY_SAID = "SUCCESS in place of a refusal"
    OPPOSITE = "money that moves the wrong way"
    NO_UTF8 = "bytes that are not UTF-8 are accepted"
    NO_BET = "every withdraw is refused with a code"
    NOT_ALL = "a bet of all the money is refused"
    FORGOTTEN = "SUCCESS after SYSTEM_ERROR, and nothing moved"
    GONE = "the process is gone"
    LAGGING = "an old balance from player-balance"
    LAST_DIGITS = "the last digits of a large balance"
    LATE = "money that moves after the answer"
    LEFT_OPEN = "a refused call is left open"
    LEFT_OVER = "what one call leaves over"
    LOST_UPDATE = "a balance that was read too early"
    MISSED = "a known player who is not found among others"
    MIXED_UP = "calls that are mixed up"
    NARROW = "ids that do not fit"
    OWNERS_BALANCE = "the balance of another player"
    ODD_IDS = "refused because of the characters of an id"
    OTHER_AMOUNT = "another amount than its own"
    OTHER_FIELD = "another field was paid"
    OF_A_PROCESS = "what each process remembers"
    OVERDRAWN = "bets without money"
    PAID_AGAIN = "a bet is paid again"
    POINT = "an amount with a point"
    PER_PLAYER = "tx_ids that count for a player"
    REFUNDED_TWICE = "a wager is given back twice"
    REDIRECT = "a redirect"
    REFUSED_AND_MOVED = "refused, and the money moved"
    REPEAT_REFUSED = "a repeat is refused"
    KEPT_FORGERY = "the refusal of a forged call is stored"
    KEPT_CLOSED = "a kept connection that was closed"
    REWRITTEN = "a signature over a rewritten body"
    ROUNDED = "rounded balances"
    ROUNDED_AMOUNTS = "amounts that are rounded"
    SAME_REPLY = "one reply to two calls"
    SECONDS = "seconds for milliseconds"
    SOME_SIGNATURES = "some right signatures are refused"
    SETTLED_GONE = "unknown once it is settled"
    SURPLUS = "refused because of a member"
    HALF_DONE = "a failed call moved money"
    INEXACT = "a cent that comes and goes"
    HUNG_UP = "no answer to a wrong signature"
    LEAKED = "a balance without a signature"
    OTHER_BYTES = "a signature over other bytes"
    UNPADDED = "cents without their zero"
    COMPRESSED = "a compressed answer"
    STATUS = "another HTTP status"
    NO_ANSWER = "no answer"
    NO_REPLY = "no reply of spec §2.1"
    NO_BALANCE = "no balance"
    INVALID_CODE = "an invalid error code"
    WRONG_BALANCE = "tells a wrong balance"
    FAILS = "answers SYSTEM_ERROR"
    FRACTIONS = "a balance finer than a cent"
    OTHER_CODES = "other codes"
    OUT_OF_TIME = "out of time"
    SCALE = "a hundredfold"
    SHARED = "another player's balance"
    SHORT_BODIES = "bodies that are too long for the wallet"
    STARVED = "calls at once starve each other"
    STORED_FAILURE = "a failure is stored"
    STUCK = "every call is refused from then on"
    STEADY = "SUCCESS where nothing was done"
    TOO_LARGE = "amounts from some size on fail"
    TURNED_AWAY = "turned away with HTTP"
    TWO_MEMORIES = "two balances by turns"
    TWICE = "twice by chance"
    TX_ID_ALONE = "a rollback is refused as a known call"
    TWIN_REFUSED = "refused beside its twin"
    ZERO_IS_NOBODY = "a player without money is not found"
    UNAUTHENTICATED = "the profile's unauthenticated_status"
    UNKNOWN_ROLLBACK = "the profile's unknown_rollback"
    VERBATIM = "the profile's duplicate_reply"
    UNREAD = "SYSTEM_ERROR for what cannot be read"
    UNREADABLE = "every withdraw is INVALID_REQUEST"
    UNJUDGED = "not judged"
    UNSIGNED_CHECK = "a balance check without a signature"
    UNSERVED = "batches are not served"


BALANCE_PATH: Final = "/player-balance"
#: HTTP statuses of a proxy, firewall or login in front of a wallet.
TURNING_AWAY: Final = frozenset({401, 403, 407, 429})


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in words, as a scenario has them; mistakes.toml describes the other fields."""

    title: str
    means: str
    fix: str
    hides_money: bool = False
    only_in_the_plainest: bool = False
    general_from: int = 1
    otherwise: str = ""
    explains: tuple[str, ...] = ()
    brings: tuple[str, ...] = ()
    brings_at_once: tuple[str, ...] = ()


#: What mistakes.toml lists, which a mistake holds as tuples.
_LISTS: Final = ("explains", "brings", "brings_at_once")


def mistake_of(cause: str) -> Mistake | None:
    """Return the mistake behind a note's *cause*; None if it is not one of these."""
    return _mistakes().get(cause)


@cache
def _mistakes() -> Mapping[str, Mistake]:
    entries = tomllib.loads(Path(__file__).with_name("mistakes.toml").read_text(encoding="utf-8"))
    return {
        cause: Mistake(**entry | {name: tuple(entry.get(name, ())) for name in _LISTS})
        for cause, entry in entries.items()
    }


class Weight(StrEnum):
    """What a failure costs. The first three make a wallet fail; advice does not."""

    MONEY_LOST = "money lost"
    MONEY_DOUBLED = "money doubled"
    CONTRACT_BROKEN = "contract broken"
    ADVICE = "advice"

    @property
    def is_money(self) -> bool:
        """Whether somebody loses money by it."""
        return self in (Weight.MONEY_LOST, Weight.MONEY_DOUBLED)

    @property
    def rank(self) -> int:
        """How heavy it is: 0 is the heaviest. Lost and doubled money weigh alike."""
        return _RANKS[self]


_RANKS: Final = {Weight.MONEY_LOST: 0, Weight.MONEY_DOUBLED: 0, Weight.CONTRACT_BROKEN: 1, Weight.ADVICE: 2}

#: The groups of scenarios.
GROUPS: Final = {
    "A": "flows",
    "B": "repeats",
    "C": "order and state",
    "D": "many at once",
    "E": "who calls",
    "F": "hostile input",
    "G": "money",
    "H": "time and failure",
}


class Outcome(StrEnum):
    """How a scenario ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Exchange:
    """
    One request to the wallet, and what came back.

    Attributes:
        title: What it was for, such as ``the same withdraw again``.
        method, path: Of the request; the path stands below the wallet's address.
        request_headers: As sent; the signature and what the user added have no value here.
        request_body: As sent; of a very long one only the beginning.
        request_bytes: How long the body was that was sent.
        status: HTTP status of the answer; 0 if none came.
        answer_headers, answer_body: The answer; of a very long body only the beginning.
        reply: The answer as a reply of spec §2.1; None if it is not one.
        problem: Why there is no reply; "" if there is one.
        elapsed_ms: From the first byte sent to the last one read.
        at_millis: When it began, by the certifier's clock, in Unix milliseconds.
        answer_bytes: How long the answer's body was.
        manner: How the request travelled: ``whole``, or ``cut``, ``chunked``, ``slow`` or ``half`` of its body.
        at: Where it went: ``wallet``; ``second`` for another process of it; ``elsewhere`` for another address of ours.
        signed_by: Whose key signed the body: ``service``, ``old``, ``retired`` or ``stranger``; ``odd`` for a signature
            that is written in another way, or of other bytes; "" if there is none.
    """

    title: str
    method: str
    path: str
    request_headers: HeaderPairs = field(repr=False)
    request_body: bytes = field(repr=False)
    request_bytes: int
    status: int
    answer_headers: HeaderPairs = field(repr=False)
    answer_body: bytes = field(repr=False)
    reply: Reply | None
    problem: str
    elapsed_ms: float
    at_millis: int
    answer_bytes: int = 0
    manner: str = "whole"
    at: str = "wallet"
    signed_by: str = ""

    @property
    def told(self) -> str:
        """The answer in a few words, such as ``SUCCESS 95.00`` or ``ERROR BET_NOT_FOUND 95.00``."""
        if self.reply is None:
            return f"HTTP {self.status}, {self.problem}" if self.status else self.problem
        words = ["SUCCESS"] if self.reply.code is None else ["ERROR", self.reply.code]
        if self.reply.balance is not None:
            words.append(f"{self.reply.balance:.2f}")
        return " ".join(words) if self.status == 200 else f"HTTP {self.status}: {' '.join(words)}"


class SymptomKind(StrEnum):
    """What a wallet did that was wrong."""

    REFUSED = "refused"
    ACCEPTED = "accepted"
    ANSWERED_OTHERWISE = "answered otherwise"
    TOO_MUCH = "too much"
    TOO_LITTLE = "too little"

    @property
    def is_of_money(self) -> bool:
        """Whether a balance is off."""
        return self in (SymptomKind.TOO_MUCH, SymptomKind.TOO_LITTLE)


@dataclass(frozen=True, slots=True)
class Symptom:
    """
    What the wallet did to which operation: failures of one mistake have the same.

    Attributes:
        path: The operation's; "" for what shows alike in all.
        kind: What it did.
        code: The code that it returned, or that it should have returned; "" for what has none.
    """

    path: str
    kind: SymptomKind
    code: str = ""

    def __str__(self) -> str:
        """It in words, for a title."""
        match self.kind:
            case SymptomKind.REFUSED:
                return f"{self.path} is refused with {self.code}"
            case SymptomKind.ACCEPTED:
                return f"{self.path} accepted instead of {self.code}".strip()
            case SymptomKind.ANSWERED_OTHERWISE:
                return f"{self.path} answered otherwise when it comes again"
        return f"after {self.path.replace(BALANCE_PATH, 'these calls')} there is {self.kind} money"


@dataclass(frozen=True, slots=True)
class Note:
    """
    Something that is wrong.

    Attributes:
        reason: What happened, to which value.
        weight: What it costs.
        cause: The same words for the same mistake wherever it shows, for a report that counts; "" if it is one of a
            kind.
        exchange: Which of the verdict's exchanges shows it, by its place; None if no single one does.
        symptom: What the wallet did to which operation; None if that says nothing.
    """

    reason: str
    weight: Weight
    cause: str = ""
    exchange: int | None = None
    symptom: Symptom | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    How a wallet fared in one scenario.

    Attributes:
        id: Such as ``B01``.
        title: What happens in it.
        weight: What the failure costs: of the heaviest note. What a failure would cost, if it did not fail.
        outcome: ``passed``, ``failed`` or ``skipped``.
        reason: Why it failed or was skipped; "" if it passed.
        exchanges: What was sent and answered, in order.
        duration_ms: How long it took.
        notes: All that is wrong, the heaviest first.
        rests_on: The sections of the specification and the decision notes (assumed) that it follows.
        means: What a failure means.
        fix: How it is usually fixed.
        is_undone: Whether it was skipped because what was supplied for it did not work.
        is_stopped: Whether it was skipped, or broken off, because somebody stopped the run.
        missing: What it needs and was not supplied, by the names of ``Supplies`` and of a few things beside them.
    """

    id: str
    title: str
    weight: Weight
    outcome: Outcome
    reason: str = ""
    exchanges: tuple[Exchange, ...] = field(default=(), repr=False)
    duration_ms: float = 0.0
    notes: tuple[Note, ...] = ()
    rests_on: tuple[str, ...] = ()
    means: str = ""
    fix: str = ""
    missing: tuple[str, ...] = ()
    is_undone: bool = False
    is_stopped: bool = False

    @property
    def name(self) -> str:
        """Its id and title."""
        return f"{self.id} {self.title}"

    @property
    def group(self) -> str:
        """The letter of its group."""
        return self.id[0]

    @property
    def failed(self) -> bool:
        """Whether it makes the wallet fail: it failed, and is more than advice."""
        return self.outcome is Outcome.FAILED and self.weight is not Weight.ADVICE

    @property
    def is_advice(self) -> bool:
        """Whether something could be better, and no more."""
        return self.outcome is Outcome.FAILED and self.weight is Weight.ADVICE

    @property
    def is_unjudged(self) -> bool:
        """Whether it failed by something that hides what became of the money."""
        mistake = mistake_of(self.notes[0].cause) if self.failed and self.notes else None
        return mistake is not None and mistake.hides_money

    @property
    def cost(self) -> str:
        """What the failure costs, in a word or two for people: its weight, or that it was not judged."""
        return "not judged" if self.is_unjudged else self.weight.value

    @property
    def is_assumed(self) -> bool:
        """Whether it rests on an assumption, and not on the specification alone."""
        return any(not each.startswith("spec ") for each in self.rests_on)

    @property
    def decisive(self) -> Exchange | None:
        """The exchange that decided, if one did."""
        place = self.notes[0].exchange if self.notes else None
        return None if place is None else self.exchanges[place]


def replies_to(call: Exchange, exchanges: Iterable[Exchange]) -> list[Reply]:
    """Return the replies that the same bytes had among *exchanges*; none if the call moves no money."""
    if call.path == BALANCE_PATH:
        return []
    sent = call.path, call.request_body
    return [each.reply for each in exchanges if each.reply is not None and (each.path, each.request_body) == sent]
