"""
The pure half of the receiver: bytes to a call or a refusal, and an outcome to the bytes of a reply (spec §2.1, §4.1).

The body is authenticated first, as the raw bytes it came in, then parsed, then validated. Why a call was refused goes
to the log and to ``on_call``, never into the reply.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from game_operator.codes import WebhookErrorCode
from game_operator.errors import MalformedCallError, WebhookSignatureError, shown
from game_operator.models.webhooks import DepositCall, Reply, WebhookCall, WithdrawCall
from game_operator.profile import Profile
from game_operator.protocol.webhook import (
    BATCH_PATHS,
    OPERATIONS,
    BatchItem,
    encode_batch_reply,
    encode_reply,
    fold_code,
    read_batch,
    read_call_and_oddities,
)
from game_operator.webhooks.authenticators import Authenticator, WebhookRequest

__all__ = ["DepositBatch", "Gate", "HttpReply", "Instances", "Refusal"]

_LOG = logging.getLogger("game_operator.webhooks")
_KNOWN_CODES = frozenset(WebhookErrorCode)

_SYSTEM_ERROR = Reply(code=WebhookErrorCode.SYSTEM_ERROR.value)

#: The game instances that are this operator's, or a callable that returns them.
Instances: TypeAlias = Collection[str] | Callable[[], Collection[str]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    A call that reaches no handler.

    Attributes:
        code: What the reply says.
        reason: Why, for the log and ``on_call`` alone.
        status: The HTTP status of the reply.
        operation: What the path asked for; "" when it is none of ours.
        anomaly: Non-empty when a genuine call may stand behind it, which somebody should look at.
    """

    code: str
    reason: str
    status: int = 200
    operation: str = ""
    anomaly: str = ""
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class DepositBatch:
    """A batch of deposits, in order (assumed, docs/decisions/0010)."""

    items: tuple[BatchItem, ...]


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What to send back: *status*, *headers* with lower-case names, and *body*."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Gate:
    """
    Turns requests into calls and outcomes into replies; keeps no state between them.

    See ``WebhookReceiver`` for the arguments.
    """

    def __init__(self, authenticator: Authenticator, profile: Profile, instances: Instances | None) -> None:
        if not callable(getattr(authenticator, "authenticate", None)):
            raise TypeError(
                f"authenticator must have a method authenticate, as RsaSignature has, not {authenticator!r}"
            )
        if isinstance(instances, str):
            raise TypeError("instances must be a set of instance ids or a callable, not a str")
        self.profile: Final = profile
        self._authenticator = authenticator
        self._instances = instances

    def open(self, request: WebhookRequest, *, now_millis: int | None = None) -> WebhookCall | DepositBatch | Refusal:
        """
        Return the call in *request*, or why there is none.

        *now_millis* is for authenticators that look at the time; ours do not. Never raises.
        """
        if now_millis is not None:
            request = replace(request, at_millis=now_millis)
        operation = self._operation_at(request.path)
        try:
            return self._unrouted(request, operation) or self._opened(request, operation)
        except WebhookSignatureError as unsigned:
            status = self.profile.unauthenticated_status
            return Refusal(WebhookErrorCode.INVALID_SIGNATURE, str(unsigned), status, operation)
        except MalformedCallError as malformed:
            return _malformed(operation, str(malformed), request.body)
        except Exception as failed:  # An authenticator or parser of the user's: the caller gets a reply all the same.
            _LOG.exception("a webhook could not be read")
            return Refusal(WebhookErrorCode.SYSTEM_ERROR, f"reading it failed: {type(failed).__name__}", 200, operation)

    def _operation_at(self, path: str) -> str:
        path = path.partition("?")[0]
        if path in BATCH_PATHS and self.profile.deposit_batch:
            return "deposit-batch"
        return OPERATIONS.get(path, "")

    def _unrouted(self, request: WebhookRequest, operation: str) -> Refusal | None:
        if not operation:
            reason = f"{shown(request.path)} is none of our paths"
            return Refusal(WebhookErrorCode.INVALID_REQUEST, reason, 404)
        if request.method != "POST":
            reason = f"the method is {shown(request.method)}, not POST"
            return Refusal(WebhookErrorCode.INVALID_REQUEST, reason, 405, operation)
        limit = self.max_bytes_at(request.path)
        if len(request.body) > limit:
            reason = f"the body has more than {limit} bytes"
            return Refusal(WebhookErrorCode.INVALID_REQUEST, reason, 200, operation)
        return None

    def max_bytes_at(self, path: str) -> int:
        """Return how long a body posted to *path* may be; adapters read no more than one byte beyond it."""
        is_batch = self._operation_at(path) == "deposit-batch"
        return self.profile.max_batch_bytes if is_batch else self.profile.max_body_bytes

    def _opened(self, request: WebhookRequest, operation: str) -> WebhookCall | DepositBatch | Refusal:
        self._authenticator.authenticate(request, self.profile)
        if operation == "deposit-batch":
            items = read_batch(request.body, self.profile)
            return DepositBatch(tuple(self._own_item(item) for item in items))
        call, oddities = read_call_and_oddities(operation, request.body, self.profile)
        for oddity in oddities:
            _LOG.warning("%s: %s cannot be read and is kept raw: %s", operation, oddity.field, shown(oddity.value))
        foreign = self._foreign(call)
        if foreign:
            return Refusal(
                WebhookErrorCode.INVALID_REQUEST, foreign, 200, operation, anomaly="foreign_instance", body=request.body
            )
        return call

    def _own_item(self, item: BatchItem) -> BatchItem:
        foreign = self._foreign(item.call) if item.call else ""
        return BatchItem(item.tx_id, None, foreign, item.body) if foreign else item

    def _foreign(self, call: WebhookCall) -> str:
        """Return why *call* is another operator's, or "". Deposits of bets and rollbacks are bound by their bet."""
        if self._instances is None:
            return ""
        if not isinstance(call, WithdrawCall) and not (isinstance(call, DepositCall) and call.is_claim):
            return ""
        ours = self._instances() if callable(self._instances) else self._instances
        return "" if call.instance_id in ours else f"the instance {shown(call.instance_id)} is none of this operator's"

    def close(self, result: object, *, now_millis: int, call: WebhookCall | None = None) -> HttpReply:
        """Return the reply for *result*: a Reply, a Refusal, or what a handler raised or returned; never raises."""
        reply, status, _ = self.judged(result, call)
        return self.written(reply, status, now_millis)

    def judged(self, result: object, call: WebhookCall | None) -> tuple[Reply, int, str]:
        """Return the reply, the HTTP status, and why the call was refused or failed, for the log."""
        match result:
            case Reply(code=None, balance_cents=None):
                return _SYSTEM_ERROR, 200, "the handler returned a SUCCESS without a balance; build it with success()"
            case Reply(code=str(code)) if code not in _KNOWN_CODES and call and not isinstance(call, WithdrawCall):
                return _SYSTEM_ERROR, 200, f"the handler answered {shown(code)}, which can refuse withdraws alone"
            case Reply():
                return result, 200, ""
            case Refusal():
                return Reply(code=str(result.code)), result.status, result.reason
            case BaseException():
                return _SYSTEM_ERROR, 200, f"the handler raised {type(result).__name__}"
        return _SYSTEM_ERROR, 200, f"the handler returned {type(result).__name__}, not success(...) or error(...)"

    def written(self, reply: Reply, status: int, now_millis: int) -> HttpReply:
        """Return *reply* as HTTP; its code folded as the profile says."""
        return _http_reply(status, encode_reply(self._folded(reply), now_millis=now_millis))

    def written_batch(self, answers: Sequence[tuple[str | None, Reply]], now_millis: int) -> HttpReply:
        """Return the answer to a batch: (tx_id, reply) in order."""
        folded = [(tx_id, self._folded(reply)) for tx_id, reply in answers]
        return _http_reply(200, encode_batch_reply(folded, now_millis=now_millis))

    def _folded(self, reply: Reply) -> Reply:
        if reply.code is None or self.profile.codes == "extended":
            return reply
        code = fold_code(reply.code, self.profile)
        return Reply(code=code, balance_cents=reply.balance_cents, timestamp=reply.timestamp)


def _http_reply(status: int, body: bytes) -> HttpReply:
    headers = {"content-type": "application/json", "content-length": str(len(body)), "cache-control": "no-store"}
    if status == 405:
        headers["allow"] = "POST"
    return HttpReply(status, headers, body)


def _malformed(operation: str, reason: str, body: bytes) -> Refusal:
    # Money may be owed: a genuine deposit or rollback that cannot be read is for somebody to look at.
    anomaly = "unreadable" if operation in ("deposit", "rollback", "deposit-batch") else ""
    return Refusal(WebhookErrorCode.INVALID_REQUEST, reason, 200, operation, anomaly, body)
