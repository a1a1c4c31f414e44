"""What the service posts to a wallet, and what it hears: values, whoever carries them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from game_operator.codes import WebhookErrorCode
from game_operator.errors import MalformedCallError
from game_operator.models.webhooks import DepositCall, MovingCall, Reply
from game_operator.protocol.webhook import encode_call
from game_operator.protocol.webhook_reply import read_batch_reply, read_reply
from game_operator.provider.faults import Fault

__all__ = ["BATCH_PATH", "NO_HELP", "Answer", "Post", "Sent", "answers_in", "unheard"]

#: Where several deposits go at once (assumed, docs/decisions/0010).
BATCH_PATH: Final = "/deposit-batch"

#: Says nothing of the call's fate: SYSTEM_ERROR is unknown, a signature that was refused asks for the call again.
NO_HELP: Final = frozenset({WebhookErrorCode.SYSTEM_ERROR, WebhookErrorCode.INVALID_SIGNATURE})
#: To a deposit these say that its withdraw, or its player, may be on the way.
_TOO_EARLY: Final = frozenset({WebhookErrorCode.BET_NOT_FOUND, WebhookErrorCode.PLAYER_NOT_FOUND})


@dataclass(frozen=True, slots=True)
class Post:
    """
    One posting of a call, or of a batch of deposits.

    Attributes:
        calls: The call; several are a batch.
        serial: The place in the order of sending, counted from 1.
        attempt: The how-manieth delivery of the call this is.
        manner: The fault laid over the way there or back, or None.
        extra: Why it is sent besides the call itself; None for the call.
    """

    calls: tuple[MovingCall, ...]
    serial: int = 0
    attempt: int = 1
    manner: Fault | None = None
    extra: Fault | None = None

    @property
    def path(self) -> str:
        """Where it goes, below the wallet's url."""
        return f"/{self.calls[0].operation}" if len(self.calls) == 1 else BATCH_PATH

    @property
    def signed(self) -> bytes:
        """The bytes that the signature is made of."""
        bodies = [encode_call(call) for call in self.calls]
        return bodies[0] if len(bodies) == 1 else b"[" + b",".join(bodies) + b"]"

    def sent_for(self, signed: bytes) -> bytes:
        """Return the bytes that are sent: those that are *signed*, unless somebody wrote the JSON anew."""
        if self.extra is not Fault.RESERIALISED:
            return signed
        return json.dumps(json.loads(signed), indent=1).encode()

    @property
    def faults(self) -> str:
        """The names of the faults it shows, for people."""
        return ", ".join(fault for fault in (self.extra, self.manner) if fault is not None)


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What the service heard of one call.

    Attributes:
        reply: The reply, or None.
        status: The HTTP status, or None.
        problem: Why no reply was heard; "" if one was.
    """

    reply: Reply | None
    status: int | None = None
    problem: str = ""

    @property
    def code(self) -> str | None:
        """The error code; None for SUCCESS, and where nothing was heard."""
        return None if self.reply is None else self.reply.code

    @property
    def succeeded(self) -> bool:
        """Whether a SUCCESS was heard."""
        return self.reply is not None and self.reply.code is None

    @property
    def unreadable(self) -> bool:
        """Whether something was answered, and it is no reply of spec §2.1."""
        return self.reply is None and self.status is not None

    def settles(self, call: MovingCall) -> bool:
        """Return whether *call* need not be sent again (assumed, docs/decisions/0013)."""
        if self.reply is None or self.reply.code in NO_HELP:
            return False
        return not (isinstance(call, DepositCall) and self.reply.code in _TOO_EARLY)

    def __str__(self) -> str:
        if self.reply is None:
            return self.problem
        told = "SUCCESS" if self.reply.code is None else self.reply.code
        return told if self.reply.balance is None else f"{told}, balance {self.reply.balance}"


@dataclass(frozen=True, slots=True)
class Sent:
    """A post and what was heard of the call in it that this history is about."""

    post: Post
    answer: Answer
    call: MovingCall


def unheard(calls: Iterable[MovingCall], problem: str) -> tuple[Answer, ...]:
    """Return an answer for each call that says why nothing was heard."""
    answer = Answer(None, None, problem)
    return tuple(answer for _ in calls)


def answers_in(post: Post, status: int, body: bytes, defect: str = "") -> tuple[Answer, ...]:
    """
    Return what *body*, an answer to *post*, says of each of its calls; what is no reply says why.

    With a *defect* it is none, whatever the part of it says that was read.
    """
    if defect:
        return _no_reply(post, status, defect)
    try:
        if len(post.calls) == 1:
            return (Answer(read_reply(body), status),)
        replies = read_batch_reply(body)
    except MalformedCallError as malformed:
        return _no_reply(post, status, str(malformed))
    # What is left out of the answer to a batch is sent again (docs/decisions/0010).
    left_out = Answer(None, None, "left out of the answer to its batch")
    return tuple(
        left_out if (reply := replies.get(call.tx_id or "")) is None else Answer(reply, status) for call in post.calls
    )


def _no_reply(post: Post, status: int, problem: str) -> tuple[Answer, ...]:
    answer = Answer(None, status, f"HTTP {status}, and no reply: {problem}")
    return tuple(answer for _ in post.calls)
