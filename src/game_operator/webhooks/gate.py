"""
The pure half of the receiver: bytes to a call or a refusal, and an outcome to the bytes of a reply (spec §2.1, §4.1).

The body is authenticated first, as the raw bytes it came in, then parsed, then validated. Why a call was refused goes
to the log and to ``on_call``, never into the reply.
"""

import inspect
import logging
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeAlias

from game_operator.codes import WebhookErrorCode
from game_operator.errors import InstancesUnavailableError, MalformedCallError, WebhookSignatureError, shown
from game_operator.models.webhooks import DepositCall, Reply, WebhookCall, WithdrawCall
from game_operator.profile import Profile
from game_operator.protocol.http import HttpReply
from game_operator.protocol.webhook import BATCH_PATHS, OPERATIONS, BatchItem, read_batch, read_call
from game_operator.protocol.webhook_reply import encode_batch_reply, encode_reply, fold_code
from game_operator.webhooks.authenticators import LOST, Authenticator, WebhookRequest, covers_body
from game_operator.webhooks.budget import OverBudget, log_failure

_LOG = logging.getLogger("game_operator.webhooks")
_BATCH: Final = "deposit-batch"
#: How much of a body that is too long an adapter reads all the same and throws away: a client that is still sending
#: when the connection closes sees a broken connection, and not the reply.
READ_AWAY: Final = 8_388_608

_MOST_LENGTH_DIGITS: Final = 19
#: Of a header that is quoted in a reason.
_SHOWN_CHARACTERS: Final = 60

_KNOWN_CODES = frozenset(WebhookErrorCode)
_CODE = re.compile(r"[A-Z0-9_]{1,64}")
#: Where the account was not read, or must not be revealed.
_WITHOUT_BALANCE = frozenset(
    {WebhookErrorCode.SYSTEM_ERROR, WebhookErrorCode.INVALID_SIGNATURE, WebhookErrorCode.PLAYER_NOT_FOUND}
)
_SYSTEM_ERROR = Reply(code=WebhookErrorCode.SYSTEM_ERROR.value)

#: The game instances that are this operator's.
Instances: TypeAlias = Container[str]


class UnreadBodyError(Exception):
    """
    A body that an adapter has not read to its end, or that is too long; the text says why, for the log.

    Attributes:
        ended: Whether all of it was read from the connection, which can carry another request.
    """

    def __init__(self, reason: str, *, ended: bool = False) -> None:
        super().__init__(reason)
        self.ended: Final = ended


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    A call that reaches no handler.

    Attributes:
        code: What the reply says.
        reason: Why, for the log and ``on_call`` alone.
        status: The HTTP status of the reply.
        operation: What the path asked for; "" for an unknown path.
        anomaly: Non-empty when a genuine call may stand behind it, which somebody should look at.
        body: That call's bytes.
        is_unread: Whether the body is not known to be whole, which any stranger can cause.
    """

    code: str
    reason: str
    status: int = 200
    operation: str = ""
    anomaly: str = ""
    body: bytes = field(default=b"", repr=False)
    is_unread: bool = False


@dataclass(frozen=True, slots=True)
class DepositBatch:
    """
    A batch of deposits, in order (assumed, docs/decisions/0010).

    Attributes:
        items: The deposits; an item that reaches no handler has no call.
        refusals: For each item why it has no call, or None.
    """

    items: tuple[BatchItem, ...]
    refusals: tuple[Refusal | None, ...] = ()


class Gate:
    """
    Turns requests into calls and outcomes into replies; keeps no state between them.

    See ``WebhookReceiver`` for the arguments.
    """

    def __init__(self, authenticator: Authenticator, profile: Profile, instances: Instances | None) -> None:
        if isinstance(authenticator, type) or not callable(getattr(authenticator, "authenticate", None)):
            raise TypeError(
                f"authenticator must be an object with a method authenticate, such as RsaSignature(…), "
                f"not {shown(authenticator)}"
            )
        if not isinstance(profile, Profile):
            raise TypeError(f"profile must be a Profile, not {type(profile).__name__}; Profile.from_toml reads a text")
        # In a text every part of an id would be found, and a generator would be used up by the first look.
        if isinstance(instances, str | bytes) or not isinstance(instances, Container | None):
            raise TypeError(f"instances must be a set of instance ids, not {type(instances).__name__}")
        self.profile: Final = profile
        self._authenticator = authenticator
        self._covers_body = covers_body(authenticator)
        self._instances = instances

    def open(self, request: WebhookRequest) -> WebhookCall | DepositBatch | Refusal:
        """Return the call in *request*, or why it is refused; never raises."""
        operation = ""
        try:
            operation = self._operation_at(request.path)
            refusal = self._unrouted(request, operation)
            if refusal is not None:
                return refusal
            self._count_key(self._authenticator.authenticate(request, self.profile))
            if operation == _BATCH:
                return self._opened_batch(request.body)
            call, oddities = read_call(operation, request.body, self.profile)
            for oddity in oddities:
                level = logging.INFO if oddity.absent else logging.WARNING
                _LOG.log(level, "%s: %s", operation, oddity, extra={"event": "webhook.odd", "operation": operation})
            return self._foreign(call, request.body) or call
        except WebhookSignatureError as unsigned:
            status = self.profile.unauthenticated_status
            reason = f"{unsigned}{_hints_in(request)}"
            return Refusal(WebhookErrorCode.INVALID_SIGNATURE, reason, status, operation)
        except MalformedCallError as malformed:
            hints = _hints_in(request)
            refusal = _malformed(operation, f"{malformed}{hints}", request.body)
            # INVALID_REQUEST is final (docs/decisions/0013). Nobody knows what a body said that did not all come.
            if not self._covers_body and (missing := _missing_of(request)):
                reason = f"{missing}{hints}"
                return replace(refusal, code=WebhookErrorCode.SYSTEM_ERROR, reason=reason, is_unread=True)
            return refusal
        except Exception as failed:  # An authenticator or parser of the user's: the caller gets a reply all the same.
            extra = {"event": "webhook.unreadable", "operation": operation}
            log_failure(_LOG, f"a webhook posted to {shown(request.path)} could not be read", failed, extra)
            return Refusal(WebhookErrorCode.SYSTEM_ERROR, f"reading it failed: {type(failed).__name__}", 200, operation)

    def _count_key(self, key: object) -> None:
        """Count a genuine request by the *key* that signed it."""

    def _operation_at(self, path: str) -> str:
        operation = OPERATIONS.get(path)
        if operation is None:
            path = path.partition("?")[0]
            is_batch = path in BATCH_PATHS and self.profile.deposit_batch
            operation = _BATCH if is_batch else OPERATIONS.get(path, "")
        return operation

    def _unrouted(self, request: WebhookRequest, operation: str) -> Refusal | None:
        code, status = WebhookErrorCode.INVALID_REQUEST, 200
        if not operation:
            reason, status = f"{shown(request.path)} is not one of our paths", 404
        elif request.method != "POST":
            reason, status = f"the method is {shown(request.method)}, not POST", 405
        elif type(request.body) is not bytes:
            # Decoded text is not what was signed. The caller's own program is at fault, so the call may come again.
            code = WebhookErrorCode.SYSTEM_ERROR
            reason = f"the body was handed over as {type(request.body).__name__}; hand over the raw bytes as they came"
        elif len(request.body) > self.max_bytes_at(request.path):
            # Nobody has read what it says, so its repeat, under a greater limit, may still move money.
            reason = self.too_long_at(request.path, len(request.body))
            return Refusal(WebhookErrorCode.SYSTEM_ERROR, reason, operation=operation, is_unread=True)
        else:
            return None
        return Refusal(code, reason, status, operation)

    def max_bytes_at(self, path: str) -> int:
        """Return how long a body posted to *path* may be; adapters keep no more than a little beyond it."""
        is_batch = self._operation_at(path) == _BATCH
        return self.profile.max_batch_bytes if is_batch else self.profile.max_body_bytes

    def too_long_at(self, path: str, length: int | str) -> str:
        """Return the reason for refusing a body of *length* bytes that was posted to *path*."""
        setting = "max_batch_bytes" if self._operation_at(path) == _BATCH else "max_body_bytes"
        limit = self.max_bytes_at(path)
        return f"the body has {length} bytes, and the profile's {setting} is {limit}: is that too few?"

    def _opened_batch(self, body: bytes) -> DepositBatch:
        items: list[BatchItem] = []
        refusals: list[Refusal | None] = []
        for item in read_batch(body, self.profile):
            refusal = (
                self._foreign(item.call, item.body) if item.call else _malformed("deposit", item.problem, item.body)
            )
            items.append(BatchItem(item.tx_id, None, refusal.reason, item.body) if refusal else item)
            refusals.append(refusal)
        return DepositBatch(tuple(items), tuple(refusals))

    def _foreign(self, call: WebhookCall, body: bytes) -> Refusal | None:
        """Return the refusal of another operator's *call*. Deposits of bets and rollbacks are bound by their bet."""
        if self._instances is None:
            return None
        if not isinstance(call, WithdrawCall) and not (isinstance(call, DepositCall) and call.is_claim):
            return None
        try:
            if call.instance_id is not None and call.instance_id in self._instances:
                return None
        except InstancesUnavailableError as unavailable:
            # A refusal for good could be wrong: the service sends the call again, and then it can be judged.
            return Refusal(WebhookErrorCode.SYSTEM_ERROR, str(unavailable), 200, call.operation)
        reason = f"the instance {shown(call.instance_id)} is not one of this operator's"
        return Refusal(WebhookErrorCode.INVALID_REQUEST, reason, 200, call.operation, "foreign_instance", body)

    def close(self, result: object, *, now_millis: int, call: WebhookCall | None = None) -> HttpReply:
        """
        Return the reply for *result*: a Reply, a Refusal, or what a handler raised or returned; never raises.

        *now_millis* is the time, in Unix milliseconds, of a reply that has none.
        """
        reply, status, _ = self.judged(result, call)
        return self.written(reply, status, now_millis)

    def judged(self, result: object, call: WebhookCall | None) -> tuple[Reply, int, str]:
        """Return the reply for *result*, the HTTP status, and why the call was refused or failed, for the log."""
        if type(result) is Reply:
            if result.code is None:
                return result, 200, ""
            problem = _problem_of(result, call)
            if problem:
                return _SYSTEM_ERROR, 200, f"the handler {problem}"
            if result.code in _WITHOUT_BALANCE:
                return Reply(code=result.code, timestamp=result.timestamp), 200, ""
            return result, 200, ""
        if isinstance(result, Refusal) and call is None:
            return Reply(code=str(result.code)), result.status, result.reason
        return _SYSTEM_ERROR, 200, f"the handler {_mistake_of(result)}"

    def written(self, reply: Reply, status: int, now_millis: int) -> HttpReply:
        """Return *reply* as HTTP, its code folded as the profile says; *now_millis* is the time if it has none."""
        body = encode_reply(reply if reply.code is None else self._folded(reply), now_millis=now_millis)
        return HttpReply(status, headers_of(status, len(body)), body)

    def written_batch(self, answers: Sequence[tuple[str | None, Reply]], now_millis: int) -> HttpReply:
        """
        Return the reply to a batch: *answers* are (tx_id, reply) in order.

        *now_millis* is the time, in Unix milliseconds, of replies that have none.
        """
        folded = [(tx_id, self._folded(reply)) for tx_id, reply in answers]
        body = encode_batch_reply(folded, now_millis=now_millis)
        return HttpReply(200, headers_of(200, len(body)), body)

    def _folded(self, reply: Reply) -> Reply:
        if reply.code is None or self.profile.codes == "extended":
            return reply
        return replace(reply, code=fold_code(reply.code, self.profile))


@lru_cache(maxsize=1024)
def headers_of(status: int, length: int) -> Mapping[str, str]:
    """Return the headers of a reply with a body of *length* bytes."""
    headers = {"content-type": "application/json", "content-length": str(length), "cache-control": "no-store"}
    return MappingProxyType(headers | {"allow": "POST"} if status == 405 else headers)


def _hints_in(request: WebhookRequest) -> str:
    """Return what to add to a reason because of the headers, or ""."""
    return _encoding_of(request) + _upgrade_in(request)


def _encoding_of(request: WebhookRequest) -> str:
    """Return what to add to a reason if the body may be compressed, else ""."""
    values = [value.strip() for name, value in request.headers if name == b"content-encoding"]
    coding = b", ".join(values).decode("latin-1")
    if not coding or coding.lower() == "identity":
        return ""
    return (
        f". The body's Content-Encoding is {shown(coding[:_SHOWN_CHARACTERS])}, and the receiver never unpacks a body: "
        "switch off the compression of request bodies, in the proxy or at the caller"
    )


def _missing_of(request: WebhookRequest) -> str:
    """Return why the body is not known to be whole, or ""."""
    declared = {value for name, value in request.headers if name == b"content-length"}
    length = max((int(value) for value in declared if value.isdigit() and len(value) <= _MOST_LENGTH_DIGITS), default=0)
    if request.body and length <= len(request.body):
        return ""
    told = f"the body has {len(request.body)} of its {length} bytes" if length else "the body is empty"
    return f"{told}, and the authenticator does not cover it. {LOST}"


def _upgrade_in(request: WebhookRequest) -> str:
    """Return what to add to a reason if a server may have taken the body away because of an upgrade, else ""."""
    asked = next((value for name, value in request.headers if name == b"upgrade"), None)
    if request.body or asked is None:
        return ""
    told = shown(asked.decode("latin-1")[:_SHOWN_CHARACTERS])
    return (
        f". The request asks for an upgrade to {told}, and uvicorn with httptools reads no body then: start uvicorn "
        "with --http game_operator.serve:SafeProtocol or --http h11"
    )


def _malformed(operation: str, reason: str, body: bytes) -> Refusal:
    # Money may be owed: a genuine deposit or rollback that cannot be read is for somebody to look at.
    anomaly = "unreadable" if operation in ("deposit", "rollback", _BATCH) else ""
    return Refusal(WebhookErrorCode.INVALID_REQUEST, reason, 200, operation, anomaly, body)


def _problem_of(reply: Reply, call: WebhookCall | None) -> str:
    """Return what is wrong with a handler's *reply*, which need not come from ``success`` or ``error``, or ""."""
    code = str(reply.code)
    if not _CODE.fullmatch(code):
        return f"answered {shown(code)}, which is not an error code; build it with error()"
    if code == WebhookErrorCode.INSUFFICIENT_BALANCE and reply.balance_cents is None:
        return "answered INSUFFICIENT_BALANCE without the balance; build it with error()"
    if code not in _KNOWN_CODES and call is not None and not isinstance(call, WithdrawCall):
        return f"answered {shown(code)} to a {call.operation}; codes of your own can refuse withdraws alone"
    return ""


def _mistake_of(result: object) -> str:
    if isinstance(result, OverBudget):
        return f"took longer than its budget of {result.seconds:g} s: {result.how}"
    if isinstance(result, BaseException):
        return f"raised {type(result).__name__}"
    if inspect.iscoroutine(result):
        result.close()
        return "returned a coroutine: some decorator hides that its method is async"
    return f"returned {type(result).__name__}, not success(...) or error(...)"


def normal_prefix(prefix: str) -> str:
    """Return *prefix* with one slash before it and none behind; "" for none."""
    stripped = prefix.strip("/")
    return f"/{stripped}" if stripped else ""


def path_below(path: str, mounted_at: str, prefix: str) -> str:
    """
    Return what of *path* lies below *prefix*.

    Before the prefix *path* may have any part of *mounted_at*: servers disagree on whether a path begins with where the
    application is mounted, proxies strip a part of it or not, and with ``FastAPI(root_path=...)`` it has a part that
    only the proxy has seen. Some servers put it before a path that has it already. What does not lie below the prefix
    comes back as text that is not one of our paths.
    """
    if not mounted_at and not prefix:
        return path
    parts = f"{mounted_at}{mounted_at}/"
    end = len(parts) + len(prefix)
    while (start := path.rfind(f"{prefix}/", 0, end)) >= 0:
        if f"{path[:start]}/" in parts:
            return path[start + len(prefix) :]
        end = start + len(prefix)
    return f"{path} (outside {mounted_at + prefix})"
