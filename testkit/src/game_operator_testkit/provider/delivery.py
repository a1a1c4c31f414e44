"""What the service posts to a wallet, what comes back, and what that means for the call, as plain values."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator.errors import MalformedCallError, TransportError
from game_operator.models.webhooks import MovingCall, Reply
from game_operator.protocol.http import HeaderPairs, HttpReply, without_secret
from game_operator.protocol.signing import Signature
from game_operator_testkit.provider.bodies import DEFAULT_WRITER, BodyWriter
from game_operator_testkit.provider.faults import FAULTS_TO_REFUSE, Fault
from game_operator_testkit.provider.kept_connections import ClosedUnansweredError
from game_operator_testkit.provider.replies import read_reply
from game_operator_testkit.provider.requests import AS_THE_SERVICE, Manner, Request, Seal

#: Says nothing of the call's fate: SYSTEM_ERROR is unknown, a signature that was refused asks for the call again.
NO_HELP: Final = frozenset({WebhookErrorCode.SYSTEM_ERROR, WebhookErrorCode.INVALID_SIGNATURE})
#: What a wallet answers to a rollback or deposit of a bet that it never saw: its withdraw may be on the way.
UNSEEN: Final = frozenset({WebhookErrorCode.BET_NOT_FOUND, WebhookErrorCode.PLAYER_NOT_FOUND})
_KNOWN: Final = frozenset(code.value for code in WebhookErrorCode)
#: What a fault does to the signature, and to the way there; the others leave both alone.
_SEALS: Final[Mapping[Fault | None, Seal]] = {Fault.FORGED: Seal(key="stranger"), Fault.OLD_KEY: Seal(key="old")}
_MANNERS: Final[Mapping[Fault | None, Manner]] = {
    Fault.TIMEOUT: Manner.HANG_UP,
    Fault.RESET: Manner.CUT,
    Fault.SLOW: Manner.SLOW,
}
_SIGNED_WITH: Final[Mapping[Fault | None, str]] = {
    Fault.FORGED: "forged",
    Fault.OLD_KEY: "old key",
    Fault.RESERIALISED: "other bytes",
}


class DeliveryInDoubtError(TransportError):
    """A webhook that this package posted went unanswered: the wallet may or may not have carried it out."""

    remedy = "Post the very same bytes again: a wallet knows a call that it has carried out, and moves nothing twice."


class Finality(Enum):
    """What a refusal means for the call (assumed, docs/decisions/0013)."""

    #: It moved nothing and, unchanged, never will: it is not sent again.
    FINAL = auto()
    #: It moved nothing yet, or that is unknown: it is sent again.
    REPEAT = auto()
    #: The code is not one of the assumed ones.
    STRANGE = auto()


def finality(operation: str, code: str, *, early_code: str = WebhookErrorCode.BET_NOT_FOUND) -> Finality:
    """
    Return what *code* says about a call of *operation*.

    *early_code* is the profile's ``early_deposit_code``. A service with another one than BET_NOT_FOUND gives up a
    deposit that is refused with BET_NOT_FOUND.
    """
    is_early = operation == "deposit" and code in UNSEEN and early_code == WebhookErrorCode.BET_NOT_FOUND
    if code in NO_HELP or is_early:
        return Finality.REPEAT
    # An operator's own codes refuse withdraws alone, and for good.
    return Finality.FINAL if code in _KNOWN or operation == "withdraw" else Finality.STRANGE


def is_definite(operation: str, code: str | None, *, early_code: str = WebhookErrorCode.BET_NOT_FOUND) -> bool:
    """Return whether a call that is answered with *code*, None for SUCCESS, need not be sent again."""
    return code is None or finality(operation, code, early_code=early_code) in (Finality.FINAL, Finality.STRANGE)


@dataclass(frozen=True, slots=True)
class Delivery:
    """
    A webhook that was answered.

    Attributes:
        path: Where it was posted to, below the caller's url.
        posted: The body's bytes, as they were signed.
        status: The HTTP status of the answer; the specification wants 200, always (spec §4.1).
        headers: The answer's header fields by their names in lower case.
        body: The answer's body, at most 1 MiB of it.
        reply: What the body says, whatever the status; None if it is no reply of spec §2.1.
        problem: Why there is no reply; "" if there is one.
        elapsed_seconds: From the first byte sent, connecting included, to the last one read.
    """

    path: str
    posted: bytes
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes
    reply: Reply | None
    problem: str
    elapsed_seconds: float

    @property
    def code(self) -> str | None:
        """The error code of the reply; None for a SUCCESS, and where there is no reply."""
        return None if self.reply is None else self.reply.code


@dataclass(frozen=True)
class Carried:
    """
    What came of a request.

    Attributes:
        request: What was sent.
        headers: Its content type, its own headers and its signature.
        answer: What came back; None if nothing did.
        problem: Why nothing came back, or why the service did not take notice of it or could not read it.
        elapsed_seconds: How long it took.
        began_millis: When it began, by the machine's clock.
        url: Where it went; "" in process.
        timed_out: Whether no answer came in time.
        unreachable: Whether nobody could be reached: nothing was sent.
        remedy: What to do about that; "" if somebody was reached.
        is_lost: Whether the service takes no notice of what came back, because a fault lost it.
        place: Which exchange of a record it is, counted from 0.
        closed: What is known of a kept connection that the wallet closed before one byte of an answer; the request was
            then sent again, on a new one.
    """

    request: Request
    headers: HeaderPairs = field(repr=False)
    answer: HttpReply | None
    problem: str
    elapsed_seconds: float
    began_millis: int
    url: str = ""
    timed_out: bool = False
    unreachable: bool = False
    place: int = 0
    closed: ClosedUnansweredError | None = field(default=None, repr=False, compare=False)
    remedy: str = ""
    is_lost: bool = False

    @property
    def sent_again(self) -> bool:
        """Whether it was sent twice."""
        return self.closed is not None

    @property
    def status(self) -> int:
        """The HTTP status; 0 if nothing came back."""
        return self.answer.status if self.answer else 0

    @property
    def body(self) -> bytes:
        """The body that came back, at most 1 MiB of it."""
        return self.answer.body if self.answer else b""

    @cached_property
    def reply(self) -> Reply | None:
        """The reply of spec §2.1, or None: then there is a *problem*, or the body says nothing."""
        return None if self.answer is None or self.is_lost else reply_in(self.answer)[0]

    @property
    def elapsed_ms(self) -> float:
        """How long it took."""
        return self.elapsed_seconds * 1_000

    @property
    def succeeded(self) -> bool:
        """Whether it is a SUCCESS."""
        return self.reply is not None and self.reply.code is None

    @property
    def code(self) -> str | None:
        """The error code; None for a SUCCESS, and where there is no reply."""
        return None if self.reply is None else self.reply.code

    @property
    def balance_cents(self) -> int | None:
        """The balance in the reply, if it has one."""
        return None if self.reply is None else self.reply.balance_cents


@dataclass(frozen=True, slots=True)
class Begun:
    """A request on its way to *url*, which is "" in process, and when that began by the machine's clocks."""

    request: Request
    headers: HeaderPairs = field(repr=False)
    url: str = ""
    began_millis: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    began: float = field(default_factory=lambda: time.perf_counter())

    def carried(
        self,
        answer: HttpReply | None,
        problem: str,
        *,
        timed_out: bool = False,
        unreachable: bool = False,
        remedy: str = "",
        closed: ClosedUnansweredError | None = None,
        is_lost: bool = False,
    ) -> Carried:
        """Return what came of it just now."""
        return Carried(
            self.request,
            self.headers,
            answer,
            problem,
            time.perf_counter() - self.began,
            self.began_millis,
            self.url,
            timed_out,
            unreachable,
            closed=closed,
            remedy=remedy,
            is_lost=is_lost,
        )


def pairs_of(headers: Mapping[str, str]) -> HeaderPairs:
    """Return the *headers* of an ``HttpReply`` as pairs of bytes, for logs and reports."""
    return tuple((_latin(name), _latin(value)) for name, value in headers.items())


def _latin(text: str) -> bytes:
    # A wallet in this process may use characters that no header can carry.
    return text.encode("latin-1", "backslashreplace")


def delivered(carried: Carried) -> Delivery:
    """Return what users see of a request that was answered."""
    request, answer = carried.request, carried.answer
    assert answer is not None, "only what was answered is delivered"
    reply, problem = reply_in(answer)
    seconds = carried.elapsed_seconds
    return Delivery(request.path, request.body, answer.status, answer.headers, answer.body, reply, problem, seconds)


def reply_in(answer: HttpReply) -> tuple[Reply | None, str]:
    """Return the reply in *answer*, or None and why there is none (spec §2.1)."""
    if answer.defect:
        return None, answer.defect
    try:
        return read_reply(answer.body), ""
    except MalformedCallError as malformed:
        return None, str(malformed)


@dataclass(frozen=True, slots=True)
class Post:
    """
    One posting of a call.

    Attributes:
        call: The call.
        serial: The place in the order of sending, counted from 1.
        attempt: Which delivery of the call this is, counted from 1.
        manner: The fault laid over the way there or back, or None.
        extra: Why it is sent besides the call itself; None for the call.
        writer: Writes its bytes.
    """

    call: MovingCall
    serial: int = 0
    attempt: int = 1
    manner: Fault | None = None
    extra: Fault | None = None
    writer: BodyWriter = field(default=DEFAULT_WRITER, repr=False, compare=False)

    @property
    def path(self) -> str:
        """Where it goes, below the wallet's url."""
        return f"/{self.call.operation}"

    @property
    def signed(self) -> bytes:
        """The bytes that the signature is made of."""
        return self.writer.encoded(self.call)

    @property
    def body(self) -> bytes:
        """The bytes that are sent: those that are signed, unless a proxy rewrote the JSON."""
        if self.extra is not Fault.RESERIALISED:
            return self.signed
        return json.dumps(json.loads(self.signed), indent=1).encode()

    @property
    def request(self) -> Request:
        """The request that carries it, signed and sent as its faults say."""
        seal = _SEALS.get(self.extra, AS_THE_SERVICE)
        if self.extra is Fault.RESERIALISED:
            seal = Seal(over=self.signed)
        return Request("", self.path, self.body, seal, manner=_MANNERS.get(self.manner, Manner.WHOLE))

    @property
    def signed_with(self) -> str:
        """Whose signature it has, for people."""
        return _SIGNED_WITH.get(self.extra, "valid")

    @property
    def is_genuine(self) -> bool:
        """Whether a correct wallet accepts it: it is the call itself, or a duplicate."""
        return self.extra not in FAULTS_TO_REFUSE

    @property
    def faults(self) -> str:
        """The names of the faults it shows, for people."""
        return ", ".join(fault for fault in (self.extra, self.manner) if fault is not None)


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What the service received for one call.

    Attributes:
        reply: The reply, or None.
        status: The HTTP status, or None.
        problem: Why there is no reply; "" if there is one.
        early_code: The profile's ``early_deposit_code``.
        number: Its number in a log of exchanges; 0 if it has none.
    """

    reply: Reply | None
    status: int | None = None
    problem: str = ""
    early_code: str = field(default=WebhookErrorCode.BET_NOT_FOUND, repr=False)
    number: int = field(default=0, repr=False, compare=False)

    @property
    def code(self) -> str | None:
        """The error code; None for SUCCESS, and without a reply."""
        return None if self.reply is None else self.reply.code

    @property
    def succeeded(self) -> bool:
        """Whether it is a SUCCESS."""
        return self.reply is not None and self.reply.code is None

    def settles(self, call: MovingCall) -> bool:
        """Return whether *call* need not be sent again (assumed, docs/decisions/0013)."""
        return self.reply is not None and is_definite(call.operation, self.reply.code, early_code=self.early_code)

    def __str__(self) -> str:
        if self.reply is None:
            return self.problem
        result = self.reply.code or "SUCCESS"
        return result if self.reply.balance is None else f"{result}, balance {self.reply.balance}"


def unanswered(problem: str, status: int | None = None) -> Answer:
    """Return an answer that says why there is no reply."""
    return Answer(None, status, problem if status is None else f"HTTP {status}, and no reply: {problem}")


def answer_in(post: Post, answer: HttpReply) -> Answer:
    """Return what *answer* says to *post*; a body that is not a reply says why, and one with a defect is not read."""
    reply, problem = reply_in(answer)
    if reply is None:
        return unanswered(problem, answer.status)
    return Answer(reply, answer.status, early_code=post.writer.profile.early_deposit_code)


def answer_to(post: Post, carried: Carried) -> Answer:
    """
    Return what the service received for *post*.

    Traces and reports show it, so a signature that the wallet quotes is cut out (docs/decisions/0030).
    """
    answer, problem = carried.answer, carried.problem
    for signature in (value for _, value in carried.headers if isinstance(value, Signature)):
        problem = problem.replace(signature.decode(), "[signature removed]")
        answer = None if answer is None else without_secret(answer, signature)
    if answer is None or carried.is_lost:
        return unanswered(problem)
    return answer_in(post, answer)
