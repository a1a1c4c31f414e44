"""Forms of the pages: ours alone, of a bounded length, with a sentence for each field that cannot be read."""

import re
from collections.abc import Mapping
from decimal import Decimal
from hmac import compare_digest
from typing import Annotated, Final, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from game_operator.money import cents_from_amount

M = TypeVar("M", bound=BaseModel)

#: More than any of our forms can hold.
MAX_FORM_BYTES: Final = 64 * 1024
#: The field that shows that a form is ours.
TOKEN_FIELD: Final = "form_token"  # noqa: S105 - the name, not the token

_FORM_TYPE: Final = "application/x-www-form-urlencoded"
_MAX_FIELDS: Final = 500
#: Numbers below zero are read too, because the rules of the protocol refuse them with a code.
WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
#: Currency units, never through a float.
_AMOUNT: Final = re.compile(r"-?[0-9]{1,16}(?:\.[0-9]{1,2})?", re.ASCII)


async def read_form(request: Request, token: str) -> dict[str, str]:
    """
    Return the fields of a form, ids as they were typed, and all else without blanks around it.

    Where a name repeats, the last one counts.

    Raises:
        HTTPException: 413 for a body over the limit, 415 for a body that is not a form, 400 for one that cannot be
            read, 403 for a form without our *token*.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
        raise HTTPException(415, f"Forms are read as {_FORM_TYPE}, and this was something else.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise HTTPException(413, f"The form is longer than {MAX_FORM_BYTES // 1024} KiB, and nothing was done.")
    try:
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS))
    except ValueError as bad:
        raise HTTPException(400, "The form could not be read: it is not UTF-8, or has too many fields.") from bad
    if not compare_digest(fields.pop(TOKEN_FIELD, "").encode(), token.encode()):
        raise HTTPException(
            403, "This form is from an earlier run of the sandbox. Go back, reload the page and send it again."
        )
    return {name: text if name.endswith("_id") else text.strip() for name, text in fields.items()}


def checked(model: type[M], typed: Mapping[str, object]) -> tuple[M | None, dict[str, str]]:
    """Return what was *typed* as *model*, or None and a sentence for each field that is wrong, by the field's name."""
    try:
        return model.model_validate(typed), {}
    except ValidationError as invalid:
        return None, {"-".join(map(str, error["loc"])): error["msg"] for error in invalid.errors()}


def problem(sentence: str) -> PydanticCustomError:
    """Return an error whose message is *sentence*, to be raised by a validator."""
    return PydanticCustomError("form", "{sentence}", {"sentence": sentence})


def whole(text: str) -> int:
    """Return a whole number; raise a problem for any other text."""
    if not WHOLE_NUMBER.fullmatch(text):
        raise problem("Write a whole number, such as 5.")
    return int(text)


def cents(text: str) -> int:
    """Return an amount in currency units as cents; raise a problem for any other text."""
    if not _AMOUNT.fullmatch(text):
        raise problem("Write an amount in currency units with at most two decimals, such as 5 or 2.50.")
    return cents_from_amount(Decimal(text))


Whole = Annotated[int, BeforeValidator(whole)]
CentsTyped = Annotated[int, BeforeValidator(cents)]
