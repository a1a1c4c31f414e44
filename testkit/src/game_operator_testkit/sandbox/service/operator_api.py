"""
The four calls of the Operator API from the service's side: recognise, verify, answer (spec §4.2, §5, §7).

``answer`` takes a request as it stood on the wire, raw path and raw body, and the world that knows operators, games,
bets and grants, and returns the response. It shares limits, encoder and signing with the operator's side.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from pydantic import TypeAdapter

from game_operator.codes import GRANT_MESSAGES, GrantErrorCode
from game_operator.models import GrantRequest
from game_operator.models.operator_api import refusal_of
from game_operator.models.wire import Text, WireModel, decode, whole_number
from game_operator.models.wire_format import MAX_WHOLE, WireFormatError
from game_operator.protocol.exact_json import Json, encode_json
from game_operator.protocol.http import HttpReply, HttpRequest
from game_operator.protocol.operations import API_PREFIX, INVALID_REQUEST, ROUND_WITHOUT_KEY
from game_operator.protocol.signing import verify
from game_operator_testkit.sandbox.service.world import SandboxWorld

AUTHENTICATION_FAILED = "Authentication failed"
OPERATOR_INACTIVE = "Operator account is inactive"

Endpoint: TypeAlias = Literal["fetch-games", "fetch-bet", "fetch-round-bets", "free-bet/grant"]

_BET_PREFIX = f"{API_PREFIX}/fetch-bet/"
_POSTS: dict[str, Endpoint] = {
    f"{API_PREFIX}/fetch-round-bets": "fetch-round-bets",
    f"{API_PREFIX}/free-bet/grant": "free-bet/grant",
}


@dataclass(frozen=True, slots=True)
class Call:
    """
    One of the four calls, recognised by its path and not verified yet.

    Attributes:
        endpoint: Its name, such as ``fetch-bet``.
        bet_id: The id in the path of a fetch-bet.
        body: The body of a POST, to be read after its signature.
    """

    endpoint: Endpoint
    bet_id: str = ""
    body: bytes = b""

    def signed_bytes(self, operator_id: str) -> bytes:
        """Return the bytes that X-Signature must cover (spec §5)."""
        if self.endpoint == "fetch-games":
            return operator_id.encode()
        return f"{operator_id}:{self.bet_id}".encode() if self.endpoint == "fetch-bet" else self.body


class _RoundKeys(WireModel, frozen=True):
    # Each may be left out as far as reading goes, so that a missing round is the first fault reported of a
    # body that lacks more; null does not count as left out.
    instance_id: Text = ""
    round_id: Text = ""
    round_no: Annotated[int, whole_number(-MAX_WHOLE, MAX_WHOLE)] = 0


_ROUND_KEYS = TypeAdapter(_RoundKeys)
_GRANT = TypeAdapter(GrantRequest)


def answer(request: HttpRequest, world: SandboxWorld, *, now_millis: int, inactive: bool = False) -> HttpReply:
    """Return the service's response to any *request*; with *inactive* every operator's account counts as inactive."""
    call = recognise(request)
    if isinstance(call, HttpReply):
        return call
    verdict = _verdict(request, call, world)
    if verdict == "missing":
        return _failure(400, INVALID_REQUEST)
    if verdict != "valid":
        return _failure(401, AUTHENTICATION_FAILED)
    if inactive or not world.active:
        # Spec §4.2 gives fetch-games no 403; that it answers 401 instead is assumed.
        is_listing = call.endpoint == "fetch-games"
        return _failure(401, AUTHENTICATION_FAILED) if is_listing else _failure(403, OPERATOR_INACTIVE)
    try:
        match call.endpoint:
            case "fetch-games":
                return _reply(200, {"games": [game.model_dump() for game in world.games()]})
            case "fetch-bet":
                return _reply(200, world.bet(call.bet_id, now_millis=now_millis).model_dump())
            case "fetch-round-bets":
                return _round(decode(_ROUND_KEYS, call.body), world, now_millis)
            case "free-bet/grant":
                return _grant(decode(_GRANT, call.body), world, now_millis)
    except WireFormatError:
        return _failure(400, INVALID_REQUEST)


def signature_verdict(request: HttpRequest, world: SandboxWorld) -> str:
    """Return, for people, what there is to say of the signature of *request*: valid, wrong, missing or not needed."""
    call = recognise(request)
    return "not needed" if isinstance(call, HttpReply) else _verdict(request, call, world)


def _verdict(request: HttpRequest, call: Call, world: SandboxWorld) -> str:
    operator_id, signature = _only(request, b"x-operator-id"), _only(request, b"x-signature")
    if not operator_id or not signature:
        return "missing"
    if operator_id.decode("latin-1") != world.operator_id:
        return "of an unknown operator"
    return "valid" if verify(world.public_key, call.signed_bytes(world.operator_id), signature) else "wrong"


def recognise(request: HttpRequest) -> Call | HttpReply:
    """Return which call *request* is, or the response if it is not one of the four."""
    path = request.path.partition("?")[0]
    if path in _POSTS:
        return Call(_POSTS[path], body=request.body) if request.method == "POST" else _not_allowed("POST")
    segment = path.removeprefix(_BET_PREFIX)
    is_listing = path == f"{API_PREFIX}/fetch-games"
    if not is_listing and (not path.startswith(_BET_PREFIX) or not segment or "/" in segment):
        return _failure(404, "Not found")
    try:
        call = Call("fetch-games") if is_listing else Call("fetch-bet", unquote_to_bytes(segment).decode())
    except UnicodeError:
        return _failure(400, INVALID_REQUEST)
    return call if request.method == "GET" else _not_allowed("GET")


def _only(request: HttpRequest, name: bytes) -> bytes | None:
    values = [value for key, value in request.headers if key.lower() == name]
    return values[0] if len(values) == 1 else None


def _round(keys: _RoundKeys, world: SandboxWorld, now_millis: int) -> HttpReply:
    given = keys.model_dump(exclude_unset=True)
    if not given.keys() & {"round_id", "round_no"}:
        return _reply(400, {"status": "BAD_REQUEST", "error": ROUND_WITHOUT_KEY})
    if "instance_id" not in given:
        return _failure(400, INVALID_REQUEST)
    round_id, round_no = given.get("round_id"), given.get("round_no")
    found = world.round(keys.instance_id, round_id, round_no, now_millis=now_millis)
    return _reply(200, found.model_dump())


def _grant(request: GrantRequest, world: SandboxWorld, now_millis: int) -> HttpReply:
    outcome = refusal_of(request) or world.grant(request, now_millis=now_millis)
    if isinstance(outcome, GrantErrorCode):
        refused: dict[str, Json] = {"success": False, "message": GRANT_MESSAGES[outcome], "error_code": outcome}
        return _reply(400, refused)
    return _reply(200, outcome.model_dump())


def _failure(status: int, text: str) -> HttpReply:
    return _reply(status, {"error": text})


def _not_allowed(allowed: str) -> HttpReply:
    refusal = _failure(405, "Method not allowed")
    return replace(refusal, headers={**refusal.headers, "allow": allowed})


def _reply(status: int, body: Json) -> HttpReply:
    return HttpReply(status, {"content-type": "application/json"}, encode_json(body))
