"""What is sent to a wallet, and the steps of a scenario, as plain values: no HTTP library, no key, no clock."""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from game_operator.models.webhooks import Reply
from game_operator.protocol.http import Manner as Manner

#: Whose key signs: a stranger's is one that the wallet never saw.
KeyName: TypeAlias = Literal["service", "stranger", "old", "retired"]
#: How the bytes of a signature are written.
Form: TypeAlias = Literal["url-safe", "url-safe padded", "standard", "standard padded"]


@dataclass(frozen=True, slots=True)
class Seal:
    """
    How a request is signed (assumed, docs/decisions/0011).

    Attributes:
        key: Whose key signs, ``old`` and ``retired`` those of a rotation; None for no signature at all.
        over: The bytes that are signed, in place of the body.
        form: How the signature is written.
        literal: What stands in the header in place of a signature; nothing is signed then.
        times: How often the header stands in the request.
        upper: Whether the header's name is written in capitals.
    """

    key: KeyName | None = "service"
    over: bytes | None = field(default=None, repr=False)
    form: Form = "url-safe"
    literal: str | None = None
    times: int = 1
    upper: bool = False


AS_THE_SERVICE: Final = Seal()
UNSIGNED: Final = Seal(key=None)


@dataclass(frozen=True, slots=True)
class Request:
    """
    One request.

    Attributes:
        title: What it is for, in a few words: a report shows it.
        path: Below the wallet's address.
        body: Its bytes.
        seal: How it is signed.
        method: POST, if nothing else is tried.
        headers: Beside those of every request; a Content-Type here replaces ours.
        manner: How it travels.
        at: Where it goes: ``wallet``; ``second`` for another process of the same wallet; ``elsewhere`` for the wallet,
            from an address that it must not answer.
    """

    title: str
    path: str
    body: bytes
    seal: Seal = AS_THE_SERVICE
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    manner: Manner = Manner.WHOLE
    at: Literal["wallet", "second", "elsewhere"] = "wallet"


@dataclass(frozen=True, slots=True)
class Heard:
    """
    What came back.

    Attributes:
        request: What was sent.
        status: HTTP status; 0 if no answer came.
        body: The answer's bytes, at most 1 MiB of them.
        reply: What they say; None if they are no reply of spec §2.1.
        problem: Why there is no reply; "" if there is one.
        elapsed_ms: How long it took.
        at_millis: When the request was begun, by the certifier's clock.
        place: Which of the scenario's exchanges it is.
        timed_out: Whether no answer came in time.
        unreachable: Whether nobody could be reached: nothing was sent.
    """

    request: Request
    status: int
    body: bytes = field(repr=False)
    reply: Reply | None
    problem: str
    elapsed_ms: float
    at_millis: int
    place: int
    timed_out: bool = False
    unreachable: bool = False

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
        """The balance that it tells, if it tells one."""
        return None if self.reply is None else self.reply.balance_cents


@dataclass(frozen=True, slots=True)
class Send:
    """A step: send *requests*, all at once if there are several, and hear each."""

    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class Act:
    """A step: let whoever certifies do something to the wallet, such as blocking a player (``Supplies``)."""

    what: str
    arguments: tuple[object, ...] = ()


#: What a scenario yields; it is given what was heard, in the order of the requests: nothing for an ``Act``.
Step: TypeAlias = Send | Act
