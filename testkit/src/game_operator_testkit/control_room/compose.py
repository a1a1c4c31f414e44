"""Edit, sign and send: a webhook written by hand, from nothing or from one in the live log."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ValidationInfo
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from game_operator.errors import GameOperatorError, TransportError
from game_operator.protocol.http import HeaderPairs
from game_operator_testkit.control_room.outcomes import unreachable_wallet
from game_operator_testkit.control_room.page_context import PageContext, checked, problem, see_other
from game_operator_testkit.provider.requests import Request as WalletRequest
from game_operator_testkit.provider.requests import Seal
from game_operator_testkit.sandbox.service.exchange_log import Exchange
from game_operator_testkit.sandbox.service.state import EDITED, WRITTEN

KeyTyped: TypeAlias = Literal["service", "old", "none", "stranger", "typed"]

#: Each key, in words.
KEYS: Final[Mapping[str, str]] = {
    "service": "the service’s key, as every webhook",
    "old": "the key before the last rotation: a correct wallet answers INVALID_SIGNATURE",
    "stranger": "a key that no wallet knows: INVALID_SIGNATURE",
    "none": "nothing, without a signature: INVALID_SIGNATURE",
    "typed": "the signature that stands below",
}
PATHS: Final = ("/withdraw", "/deposit", "/rollback", "/player-balance")

MOST_BODY_BYTES: Final = 64 * 1024
#: Of the form: each byte of a body takes three there, and some line ends six.
_MOST_FORM_BYTES: Final = 4 * MOST_BODY_BYTES
#: More would make a page that no browser likes to edit.
_MOST_PREFILLED_BYTES: Final = 16 * 1024
_MOST_HEADERS: Final = 20
_LONGEST_HEADER: Final = 2_000

_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]{1,100}){1,8}", re.ASCII)
_DOTS: Final = re.compile(r"/\.{1,2}(?:/|$)|%2e", re.IGNORECASE)
_HEADER: Final = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}):[ \t]*([\x20-\x7e\t]*)", re.ASCII)
_SIGNATURE: Final = re.compile(r"[\x21-\x7e]{0,2000}", re.ASCII)
#: What says where a message ends and where it goes is not for a form to say.
_OURS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade", "te"})


def _path(typed: str) -> str:
    if not _PATH.fullmatch(typed):
        raise problem("Write a path such as /withdraw: it begins with a slash, and has no blanks, ? or #.")
    if _DOTS.search(typed):
        raise problem("Leave out . and .. in the path: the call goes to the wallet’s address, and not above it.")
    return typed


def _body(typed: str) -> bytes:
    try:
        data = typed.replace("\r\n", "\n").encode()
    except UnicodeEncodeError:
        raise problem("The body must be text that UTF-8 can carry.") from None
    if len(data) > MOST_BODY_BYTES:
        raise problem(f"Write at most {MOST_BODY_BYTES // 1024} KiB; this is {len(data):,} bytes.")
    return data


def _key(typed: str) -> str:
    if typed not in get_args(KeyTyped):
        raise problem("Choose what signs the call.")
    return typed


def _signature(typed: str, info: ValidationInfo) -> str:
    if info.data.get("key") != "typed":
        return ""
    if not typed:
        raise problem("Write the signature, or choose a key above.")
    if not _SIGNATURE.fullmatch(typed):
        raise problem("A signature has at most 2,000 characters, no blanks, and only those of ASCII.")
    return typed


def _headers(typed: str, info: ValidationInfo) -> tuple[tuple[str, str], ...]:
    lines = [line.strip() for line in typed.splitlines() if line.strip()]
    if len(lines) > _MOST_HEADERS:
        raise problem(f"Write at most {_MOST_HEADERS} headers.")
    return tuple(_header(line, str(info.context)) for line in lines)


def _header(line: str, signature_header: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(line)
    if found is None or len(line) > _LONGEST_HEADER:
        raise problem("Write each header as Name: value, in ASCII.")
    if found[1].lower() in _OURS:
        raise problem(f"The sandbox writes {found[1]} itself: leave it out.")
    if found[1].lower() == signature_header.lower():
        raise problem("Choose above what signs the call, and leave the signature’s header out.")
    return found[1], found[2].strip()


class ComposeForm(BaseModel):
    """The form; validated with the name of the signature's header as context."""

    path: Annotated[str, AfterValidator(_path)]
    body: Annotated[bytes, BeforeValidator(_body)]
    key: Annotated[KeyTyped, BeforeValidator(_key)]
    signature: Annotated[str, AfterValidator(_signature)]
    headers: Annotated[tuple[tuple[str, str], ...], BeforeValidator(_headers)]

    def request(self) -> WalletRequest:
        """Return what is sent."""
        match self.key:
            case "none":
                seal = Seal(key=None)
            case "typed":
                seal = Seal(literal=self.signature)
            case key:
                seal = Seal(key=key)
        return WalletRequest("", self.path, self.body, seal, headers=self.headers)


class Composer:
    """The page with the form, and what it sends; a part of the page Live."""

    PATH: Final = "/live/compose"

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._sandbox = context.sandbox

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return [Route(self.PATH, self.show), Route(self.PATH, self.send, methods=["POST"])]

    async def show(self, request: Request) -> Response:
        """Show the form, filled in with the call that ``from`` names."""
        before = self._before(request)
        form = {"path": PATHS[0], "body": "", "key": "service", "signature": "", "headers": ""}
        if before is None:
            return self._page(request, form, {})
        form["path"] = before.path
        form["headers"] = _lines(before.request_headers, self._sandbox.service.profile.signature_header)
        body, left_out = _prefilled(before.request_body)
        return self._page(request, form | {"body": body}, {}, left_out=left_out)

    async def send(self, request: Request) -> Response:
        """Sign the call and send it."""
        typed = await self._context.form(request, most_bytes=_MOST_FORM_BYTES, verbatim=frozenset({"body"}))
        before = self._before(request)
        filled_in = {"key": "service"} | typed
        fields = {name: filled_in.get(name, "") for name in ComposeForm.model_fields}
        form, problems = checked(ComposeForm, fields, self._sandbox.service.profile.signature_header)
        if form is None:
            return self._page(request, fields, problems, status=422)
        note = WRITTEN if before is None else f"number {before.number}; {EDITED}"
        try:
            sent = await self._context.call_wallet(self._sandbox.send_by_hand, form.request(), note=note)
        except TransportError as unreachable:
            said = unreachable_wallet(f"{self._sandbox.wallet_url}{form.path}", unreachable)
            return self._page(request, fields, {"call": said}, status=502)
        except GameOperatorError as failed:
            return self._page(request, fields, {"call": str(failed)}, status=422)
        return see_other(f"/live/{sent.number}")

    def _before(self, request: Request) -> Exchange | None:
        text = request.query_params.get("from", "")
        if not text:
            return None
        exchange = self._sandbox.live.exchange(int(text)) if re.fullmatch("[0-9]{1,15}", text, re.ASCII) else None
        if exchange is None or exchange.direction != "webhook":
            raise HTTPException(404, "There is no such webhook in the log, or no longer. Write a new call instead.")
        return exchange

    def _page(
        self,
        request: Request,
        form: Mapping[str, str],
        problems: Mapping[str, str],
        *,
        status: int = 200,
        left_out: str = "",
    ) -> Response:
        number = request.query_params.get("from", "")
        return self._context.page(
            request,
            "compose.html",
            status=status,
            form=form,
            # Each header has its own place among the problems, and one field.
            problems={name.partition("-")[0]: said for name, said in problems.items()},
            number=number,
            keys=KEYS,
            paths=PATHS,
            most_kib=MOST_BODY_BYTES // 1024,
            left_out=left_out,
        )


def _prefilled(body: bytes) -> tuple[str, str]:
    """Return *body* as text to edit, or "" and why that is not possible."""
    if len(body) > _MOST_PREFILLED_BYTES:
        return "", f"The body of that call has {len(body):,} bytes, which is too long to edit here. Write another."
    try:
        return body.decode(), ""
    except UnicodeDecodeError:
        return "", "The body of that call is not UTF-8, so it cannot be edited as text. Write another."


def _lines(headers: HeaderPairs, signature_header: str) -> str:
    """Return the headers that a person added to a call, one to a line."""
    left_out = _OURS | {signature_header.lower(), "content-type", "user-agent", "accept", "accept-encoding"}
    texts = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
    return "\n".join(f"{name}: {value}" for name, value in texts if name.lower() not in left_out)
