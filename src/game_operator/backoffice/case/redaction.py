"""
What a case file leaves out: tokens always, and on request everything but the fields that are known to name nobody.

A player id becomes the same pseudonym wherever it stands in one case file. The pseudonym is a hash with a random salt
that is thrown away, so that nobody can find the player by trying ids, and two case files cannot be joined. For the same
reason no SHA-256 of bytes stands beside a pseudonym: it would show which of the ids that somebody tries is right.
"""

import hmac
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Set
from hashlib import sha256
from secrets import token_bytes
from typing import Any, Final, NamedTuple
from unicodedata import normalize
from urllib.parse import unquote_plus

from game_operator.errors import MalformedCallError
from game_operator.models.operator_api import ClosedBet
from game_operator.protocol.exact_json import encode_json, read_json

LEFT_OUT: Final = "[left out]"

#: Fields whose values let somebody act as another, in any body.
_SECRET_KEY: Final = re.compile(
    r"token|secret|passw|authori[sz]ation|cookie|session|signature|jwt|api.?key|private.?key", re.IGNORECASE
)
#: A JSON Web Token, or a key in PEM, in any text. It looks at no letter more than a few times, however long a text is.
_SECRET_TEXT: Final = re.compile(
    r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{4,}+\.[\w-]*+|-----BEGIN[^-]*+-----[^-]*+(?:-----END[^-]*+-----)?"
)
_PLAYERS: Final = frozenset({"player_id", "account"})
_STAFF: Final = frozenset({"actor", "resolved_by"})
#: Fields of a case file whose values are words of this package: a player who is called OPEN changes no state.
_WORDS: Final = re.compile(
    "operation|state|status|kind|code|currency|settled_by|verdict|made_by|service|encoding|problem|notes?|text|summary"
)
#: Fields that hold ids of other things. They stay unless a player's id stands in them.
_IDS: Final = re.compile("(?:bet|round|instance|reference|(?:withdraw_|deposit_)?tx)_id|source|subject|game|action")
#: The fields of the provider's answers.
_ANSWERED: Final = frozenset(ClosedBet.model_fields)
#: A shorter id stands in other words by chance, so it counts only where no letter or digit stands beside it.
_LEAST_INSIDE: Final = 3


class Bytes(NamedTuple):
    """Bytes from outside, such as a body or an answer, to be shown."""

    data: bytes


class Foreign(NamedTuple):
    """An answer of the provider about a bet, in which any field may hold a secret."""

    value: dict[str, Any]  # Any: JSON.


class Free(NamedTuple):
    """A text that may quote anything, in a field that otherwise holds words of this package."""

    text: str


class Redaction:
    """
    Turns the contents of a case file into what JSON can hold, without secrets.

    Args:
        contents: What is to be redacted; its player ids are collected.
        keep: The bet's id, which stays wherever it stands alone.
        hides: Whether people are hidden: then known fields stay, and everything else is left out.
    """

    def __init__(self, contents: object, *, keep: str, hides: bool) -> None:
        self._salt, self._keep, self._hides = token_bytes(32), keep, hides
        self._players = {_folded(each) for each in _players_in(contents)} if hides else set()

    def plain(self, value: object, key: str = "") -> Any:  # Any: what json.dumps takes.
        """Return *value*, which stands under *key*, as dictionaries, lists, texts, whole numbers, booleans and None."""
        match value:
            case None | bool() | int():
                return value
            case Bytes():
                return self._body(value.data)
            case Foreign():
                return self._answer(value.value)
            case Free():
                return LEFT_OUT if self._hides else _clean(value.text)
            case Mapping():
                return {name: self.plain(item, name) for name, item in value.items()}
            case list() | tuple():
                return [self.plain(item, key) for item in value]
            case str():
                return self._text(value, key) if self._hides else _clean(value)
        raise TypeError(f"{type(value).__name__} cannot stand in a case file")

    def pseudonym(self, name: str) -> str:
        """Return what stands for a person in this case file."""
        return f"person-{hmac.digest(self._salt, name.encode(errors='surrogatepass'), sha256).hex()[:12]}"

    def _text(self, text: str, key: str) -> str:
        """Return a text of a known field, and nothing of another one."""
        if key in _PLAYERS or key in _STAFF:
            return self.pseudonym(text)
        is_id = _IDS.fullmatch(key) and (text == self._keep or not _names_one(self._players, text))
        return _clean(text) if not text or is_id or _WORDS.fullmatch(key) else LEFT_OUT

    def _answer(self, value: dict[str, Any]) -> Any:  # Any: JSON.
        """Return an answer of the provider without secrets; hiding, with its known fields alone."""
        if not self._hides:
            # Numbers with a point are written differently by different programs.
            return json.loads(json.dumps(_without_secrets(value), default=str), parse_float=str, parse_constant=str)
        return {name: self.plain(item, name) for name, item in value.items() if name in _ANSWERED}

    def _body(self, data: bytes) -> dict[str, object]:
        """Return bytes with their SHA-256, as text, in Base64 or rewritten; hiding, their number alone."""
        described = {"sha256": LEFT_OUT if self._hides else sha256(data).hexdigest(), "bytes": len(data)}
        if self._hides:
            return described | {"encoding": "left out", "data": None, "note": "Bytes from outside may name anybody."}
        try:
            value = read_json(data)
        except (MalformedCallError, RecursionError):
            if _is_suspect(data.decode("latin-1")):
                why = "It is not JSON, so nothing says what is secret in it."
                return described | {"encoding": "left out", "data": None, "note": why}
        else:
            if (clean := _without_secrets(value)) != value:
                note = f"Rewritten: these bytes do not have the SHA-256 above. {LEFT_OUT} stands for what is not shown."
                return described | {"encoding": "utf-8", "data": encode_json(clean).decode(), "note": note}
        try:
            return described | {"encoding": "utf-8", "data": data.decode(), "note": ""}
        except UnicodeDecodeError:
            return described | {"encoding": "base64", "data": b64encode(data).decode(), "note": ""}


def _players_in(value: object, key: str = "") -> Iterator[str]:
    """Yield the ids of players and accounts that stand in *value*, which stands under *key*."""
    match value:
        case str() if key in _PLAYERS and value:
            yield value
        case Foreign():
            yield from _players_in(value.value)
        case Mapping():
            for name, item in value.items():
                yield from _players_in(item, name)
        case list():
            for item in value:
                yield from _players_in(item, key)


def _without_secrets(value: Any, key: str = "") -> Any:  # Any: JSON.
    """Return JSON from outside, which stands under *key*, with the values of secrets cut out."""
    if _SECRET_KEY.search(key) and value not in (None, "", True, False):
        return LEFT_OUT
    match value:
        case dict():
            return {_clean(name): _without_secrets(item, name) for name, item in value.items()}
        case list() | tuple():
            return [_without_secrets(item) for item in value]
        case str():
            return _clean(value)
    return value


def _clean(text: str) -> str:
    # JSON could write a lone surrogate down, and hardly any program could read it.
    return _SECRET_TEXT.sub(LEFT_OUT, text.encode(errors="backslashreplace").decode())


def _is_suspect(text: str) -> bool:
    """Return whether a text that is not JSON may hold a secret; what is escaped in it cannot be told."""
    return "\\u" in text or _SECRET_KEY.search(text) is not None or _SECRET_TEXT.search(text) is not None


def _folded(text: str) -> str:
    """Return *text* such that spellings which people read alike are equal."""
    return normalize("NFC", normalize("NFC", text).casefold())


def _names_one(players: Set[str], text: str) -> bool:
    """Return whether one of *players* stands in *text*, as it is or in the encoding of addresses."""
    readings = _folded(f"{text}\n{unquote_plus(text)}")
    return any(name in readings and _is_whole(name, readings) for name in players)


def _is_whole(name: str, text: str) -> bool:
    """Return whether *name*, which stands in *text*, is more than a part of a number; a short one, of a word."""
    beside = "[0-9a-z]" if len(name) < _LEAST_INSIDE else "[0-9]"
    before = f"(?<!{beside})" if name[0].isdigit() or len(name) < _LEAST_INSIDE else ""
    after = f"(?!{beside})" if name[-1].isdigit() or len(name) < _LEAST_INSIDE else ""
    return re.search(before + re.escape(name) + after, text) is not None
