"""
What a case file leaves out: tokens always, and on request everything that names a player.

A player id becomes the same pseudonym wherever it stands in one case file. The pseudonym is a hash with a random salt
that is thrown away, so that nobody can find the player by trying ids, and two case files cannot be joined. For the same
reason no SHA-256 of bytes stands beside a pseudonym: it would show which of the ids that somebody tries is right.
"""

import hmac
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final, NamedTuple

from game_operator.errors import MalformedCallError
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
#: Fields that name a person, in any body.
_PERSON: Final = re.compile(
    r"player|user|account|customer|nick|mail|phone|birth|passport|^(?:ip|name|first.?name|last.?name|address)$",
    re.IGNORECASE,
)
#: Those whose values may be numbers, and are no amounts or counts.
_NUMBERED: Final = re.compile(r"^(?:player|user|account|customer)[_-]?(?:id)?$", re.IGNORECASE)
#: Fields of a case file whose values are words of this package: a player who is called OPEN changes no state.
_OUR_WORDS: Final = re.compile(
    r"operation|state|status|kind|code|sha256|encoding|field|verdict|made_by|notes?|text|summary|content"
)
#: Fields of a case file whose values are hashes of bytes.
_HASHES: Final = re.compile(r"(?:body_)?sha256|(?:withdraw_)?digest")
#: Such a hash inside a sentence.
_HASH_TEXT: Final = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{64}(?![0-9A-Za-z])")
#: A shorter id stands in other ids by chance.
_LEAST_IN_IDS: Final = 4


class Bytes(NamedTuple):
    """Bytes from outside, such as a body or an answer, to be shown."""

    data: bytes


class Foreign(NamedTuple):
    """JSON from outside, in which any field may hold a secret."""

    value: Any  # Any: JSON.


class Redaction:
    """
    Turns the contents of a case file into what JSON can hold, without secrets.

    Args:
        contents: What is to be redacted; its player ids are collected.
        keep: The bet's id, which stays wherever it stands.
        salt: Random bytes for the pseudonyms.
        fields: Under which names the profile finds a player's id in a body.
        only: The ids to hide; None hides every player.
    """

    def __init__(
        self,
        contents: object,
        *,
        keep: str,
        salt: bytes,
        fields: frozenset[str] = frozenset(),
        only: frozenset[str] | None = None,
    ) -> None:
        self._salt, self._fields = salt, fields
        self._hides_all, self._hides_hashes = only is None, only is None or len(only) > 0
        self._ids = frozenset(filter(None, self._named_in(contents) if only is None else only)) - {keep}
        # The longest first, and the bet's own id before all: what it holds stays.
        ids = sorted(self._ids, key=lambda each: (-len(each), each))
        self._in_ids = _any_of([keep, *(each for each in ids if len(each) >= _LEAST_IN_IDS)], ids)
        self._in_sentences = _any_of([keep, *ids], ids)
        self._keep = keep

    def plain(self, value: object, key: str = "") -> Any:  # Any: what json.dumps takes.
        """Return *value*, which stands under *key*, as dictionaries, lists, texts, whole numbers, booleans and None."""
        match value:
            case None | bool():
                return value
            case Bytes():
                return self._body(value.data)
            case Foreign():
                return self.plain(self._without(value.value, ""))
            case str() if self._hides_hashes and _HASHES.fullmatch(key):
                return LEFT_OUT
            case str() if _OUR_WORDS.fullmatch(key):
                text = value.encode(errors="backslashreplace").decode()
                return _HASH_TEXT.sub(LEFT_OUT, text) if self._hides_hashes else text
            case Mapping():
                return {str(name): self.plain(item, str(name)) for name, item in value.items()}
            case list() | tuple():
                return [self.plain(item, key) for item in value]
            case str():
                return self._text(value)
            case int():
                return self.pseudonym(str(value)) if self._hides_number(value, key) else value
            case float() | Decimal():  # Numbers with a point are written differently by different programs.
                return self._text(str(value))
            case _:
                raise TypeError(f"{type(value).__name__} cannot stand in a case file")

    def pseudonym(self, name: str) -> str:
        """Return what stands for a player in this case file."""
        return f"person-{hmac.digest(self._salt, name.encode(errors='surrogatepass'), sha256).hex()[:12]}"

    def _hides_number(self, value: int, key: str) -> bool:
        return self._is_number_of_person(key) and str(value) in self._ids

    def _is_number_of_person(self, key: str) -> bool:
        return key in self._fields or _NUMBERED.search(key) is not None

    def _is_person(self, key: str) -> bool:
        return key in self._fields or _PERSON.search(key) is not None

    def _text(self, text: str) -> str:
        # JSON could write a lone surrogate down, and hardly any program could read it.
        text = _SECRET_TEXT.sub(LEFT_OUT, text.encode(errors="backslashreplace").decode()) if text else text
        if not self._ids or not text:
            return text
        if text in self._ids:
            return self.pseudonym(text)
        pattern = self._in_sentences if " " in text else self._in_ids
        return pattern.sub(self._replaced, text) if pattern else text

    def _replaced(self, found: "re.Match[str]") -> str:
        return found[0] if found[0] == self._keep else self.pseudonym(found[0])

    def _named_in(self, value: object, key: str = "") -> Iterator[str]:
        """Yield the values under fields that name a person."""
        match value:
            case Bytes():
                yield from self._named_in(_parsed(value.data))
            case Foreign():
                yield from self._named_in(value.value)
            case Mapping():
                for name, item in value.items():
                    yield from self._named_in(item, str(name))
            case list() | tuple():
                for item in value:
                    yield from self._named_in(item, key)
            case str() if self._is_person(key):
                yield from _with_parts(value)
            case int() if not isinstance(value, bool) and self._is_number_of_person(key):
                yield str(value)

    def _body(self, data: bytes) -> dict[str, object]:
        """Return bytes, with their SHA-256 unless players are hidden; as text, in Base64, rewritten, or left out."""
        described = {"sha256": LEFT_OUT if self._hides_hashes else sha256(data).hexdigest(), "bytes": len(data)}
        value = _parsed(data)
        if value is _UNREADABLE:
            if data and (self._hides_all or _is_suspect(data.decode("latin-1"))):
                why = "It is not JSON, so what is secret in it cannot be told from the rest."
                return described | {"encoding": "left out", "data": None, "note": why}
        elif (rewritten := self._rewritten(value)) is not None:
            return described | {"encoding": "utf-8", "data": rewritten, "note": self._note_of_rewritten()}
        try:
            return described | {"encoding": "utf-8", "data": data.decode(), "note": ""}
        except UnicodeDecodeError:
            return described | {"encoding": "base64", "data": b64encode(data).decode(), "note": ""}

    def _note_of_rewritten(self) -> str:
        if self._hides_hashes:
            return f"Rewritten without players and secrets. {LEFT_OUT} stands for a secret."
        return f"Rewritten without secrets: these bytes do not have the SHA-256 above. {LEFT_OUT} stands for a secret."

    def _rewritten(self, value: object) -> str | None:
        """Return *value* as JSON without secrets; None if there are none in it."""
        clean = self._without(value, "")
        if clean == value:
            return None
        try:
            return encode_json(clean).decode()
        except (UnicodeEncodeError, ValueError):  # A lone surrogate, or a number beyond all bounds.
            return json.dumps(LEFT_OUT)

    def _without(self, value: Any, key: str) -> Any:  # Any: JSON.
        match value:
            case None | bool() | "":
                return value
            case _ if _SECRET_KEY.search(key):
                return LEFT_OUT
            case dict():
                return {self._text(name): self._without(item, name) for name, item in value.items()}
            case list() | tuple():
                return [self._without(item, key) for item in value]
            case str():
                return self._text(value)
            case int() if not isinstance(value, bool) and self._hides_number(value, key):
                return self.pseudonym(str(value))
        return value


_UNREADABLE: Final = object()


def _parsed(data: bytes) -> object:
    try:
        return read_json(data)
    except (MalformedCallError, RecursionError):
        return _UNREADABLE


def _is_suspect(text: str) -> bool:
    """Return whether a text that is not JSON may hold a secret; what is escaped in it cannot be told."""
    return "\\u" in text or _SECRET_KEY.search(text) is not None or _SECRET_TEXT.search(text) is not None


def _with_parts(value: str) -> Iterator[str]:
    """Yield *value*, and of the key of an account with several columns, which is a JSON array, the first part."""
    yield value
    if value.startswith("["):
        parts = _parsed(value.encode(errors="replace"))
        if isinstance(parts, list) and parts and isinstance(parts[0], str):
            yield parts[0]


def _any_of(texts: list[str], ids: list[str]) -> "re.Pattern[str] | None":
    """Return what finds each of *texts* where no letter or digit stands beside it; None if there is nothing to hide."""
    if not ids:
        return None
    return re.compile(rf"(?<![0-9A-Za-z])(?:{'|'.join(map(re.escape, texts))})(?![0-9A-Za-z])")
