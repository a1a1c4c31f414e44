"""What a form has sent: read up to a limit, and only if the form is one of ours."""

from collections.abc import Iterator, Mapping
from hmac import compare_digest
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from game_operator.control_room.refusal import NotServedError

__all__ = ["MAX_FORM_BYTES", "TOKEN_FIELD", "Form", "read_form"]

#: More than any of our forms can hold.
MAX_FORM_BYTES: Final = 64 * 1024
#: The field that shows that a form is ours.
TOKEN_FIELD: Final = "form_token"  # noqa: S105 - the name, not the token

_FORM_TYPE: Final = "application/x-www-form-urlencoded"
_MAX_FIELDS: Final = 500


class Form(Mapping[str, str]):
    """The fields of a form; where a name repeats, the last one counts."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> str:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def text(self, name: str, default: str = "") -> str:
        """Return the field without the blanks around it, or *default* if it was not sent."""
        return self._fields.get(name, default).strip()


async def read_form(request: Request, token: str) -> Form:
    """
    Return what the form has sent.

    Raises:
        NotServedError: 413 for a body over the limit, 415 for one that is no form, 403 for a form that is not ours.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
        raise NotServedError(415, f"Forms are read as {_FORM_TYPE}, and this was something else.")
    body = await _bounded_body(request)
    try:
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS))
    except ValueError as unreadable:
        raise NotServedError(400, "The form could not be read: it is no UTF-8, or has too many fields.") from unreadable
    if not compare_digest(fields.pop(TOKEN_FIELD, "").encode(), token.encode()):
        raise NotServedError(
            403, "This form is from an earlier run of the sandbox. Go back, reload the page and send it again."
        )
    return Form(fields)


async def _bounded_body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise NotServedError(413, f"The form is longer than {MAX_FORM_BYTES // 1024} KiB, and nothing was done.")
    return bytes(body)
