"""
What a case file leaves out: tokens always, and on request everything but the fields that are known to name nobody.

A player id becomes the same pseudonym wherever it stands in one case file. The pseudonym is a hash with a random salt
that is thrown away, so that nobody can find the player by trying ids, and two case files cannot be joined. For the same
reason no SHA-256 of bytes stands beside a pseudonym: it would show which of the ids that somebody tries is right.
"""

import hmac
import json
import re
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote, unquote_plus

from game_operator.errors import MalformedCallError
from game_operator.models.operator_api import ClosedBet, RoundFound
from game_operator.profile import Profile
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
#: Fields of a case file whose values are words of this package: a player who is called OPEN changes no state.
_WORDS: Final = (
    "operation|state|status|kind|code|currency|settled_by|verdict|kept_body|field|bet|round|made_by|service|encoding|"
    "problem|notes?|text|summary|content"
)
#: Fields of a case file that hold ids of others: what they say stays, the players in them become pseudonyms.
_IDS: Final = "(?:bet|round|instance|(?:withdraw_|deposit_)?tx)_id|source|subject|game|action|path|headers"
#: A hash inside a sentence.
_HASH_TEXT: Final = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{64}(?![0-9A-Za-z])")
#: The name of an unknown field, if it is no more than that: a longer number or another character may be data.
_FIELD_NAME: Final = re.compile(r"[A-Za-z_]{1,40}[0-9]{0,2}", re.ASCII)
#: What may be Base64 or hexadecimal.
_RUN: Final = re.compile(r"[0-9A-Za-z+/_-]{3,}")
#: A shorter id stands in other words by chance, so it is hidden only where no letter or digit stands beside it.
_LEAST_INSIDE: Final = 3

_Kind: TypeAlias = Literal["person", "number", "text"]
_Path: TypeAlias = tuple[str, ...]


class Bytes(NamedTuple):
    """Bytes from outside, such as a body or an answer, to be shown."""

    data: bytes


class Foreign(NamedTuple):
    """JSON from outside, in which any field may hold a secret."""

    value: Any  # Any: JSON.


class Free(NamedTuple):
    """A text that may quote anything, in a field that otherwise holds words of this package."""

    text: str


class Redaction:
    """
    Turns the contents of a case file into what JSON can hold, without secrets.

    Args:
        contents: What is to be redacted; its player ids are collected.
        keep: The bet's id, which stays wherever it stands.
        salt: Random bytes for the pseudonyms.
        profile: How the service writes its webhooks: their fields are known.
        hides: Whether people are hidden: then known fields stay, and everything else is left out.
        only: The players to hide; None for all.
    """

    def __init__(
        self,
        contents: object,
        *,
        keep: str,
        salt: bytes,
        profile: Profile,
        hides: bool = True,
        only: frozenset[str] | None = None,
    ) -> None:
        self._salt, self._keep, self._hides, self._only = salt, keep, hides, only
        self._known = _known_fields(profile)
        self._containers = {(), ("bets",), *(path[:steps] for path in self._known for steps in range(len(path)))}
        self._ids: set[str] = set(only or ())
        self._finds: re.Pattern[str] | None = None
        if hides:
            if only is None:
                self.plain(contents)  # The people whom it meets are those to look for in all texts.
            # The longest first, and the bet's own id before all: what it holds stays.
            ids = sorted(self._ids - {"", keep}, key=len, reverse=True)
            forms = "|".join([re.escape(keep), *(f"(?i:{re.escape(each)})" for each in ids)])
            self._finds = re.compile(rf"(?<![0-9A-Za-z])(?:{forms})(?![0-9A-Za-z])")
            self._inside = [_folded(each) for each in ids if len(each) > 1]

    def plain(self, value: object, key: str = "") -> Any:  # Any: what json.dumps takes.
        """Return *value*, which stands under *key*, as dictionaries, lists, texts, whole numbers, booleans and None."""
        match value:
            case None | bool() | int():
                return value
            case Bytes():
                return self._body(value.data)
            case Foreign():
                # Numbers with a point are written differently by different programs.
                return json.loads(
                    json.dumps(self._foreign(value.value), default=str), parse_float=str, parse_constant=str
                )
            case Free():
                return LEFT_OUT if self._hides else self._text(value.text)
            case Mapping():
                # In a difference, the two sides are values of the field that it names.
                names = {"ours": value.get("field"), "theirs": value.get("field")}
                return {name: self.plain(item, names.get(name) or name) for name, item in value.items()}
            case list() | tuple():
                return [self.plain(item, key) for item in value]
            case str():
                return self._own(value, key)
        raise TypeError(f"{type(value).__name__} cannot stand in a case file")

    def pseudonym(self, name: str) -> str:
        """Return what stands for a player in this case file."""
        return f"person-{hmac.digest(self._salt, name.encode(errors='surrogatepass'), sha256).hex()[:12]}"

    def _own(self, text: str, key: str) -> str:
        """Return a text of a case file's own field."""
        if not self._hides or re.fullmatch(_IDS, key) or not text:
            return self._text(text)
        if key in ("player_id", "account"):
            return self._person(text)
        if key in ("actor", "resolved_by"):  # Of the staff.
            return self.pseudonym(text)
        return _HASH_TEXT.sub(LEFT_OUT, _encodable(text)) if re.fullmatch(_WORDS, key) else LEFT_OUT

    def _person(self, name: str) -> str:
        if self._only is None:
            self._ids.add(name)
        return self.pseudonym(name) if self._only is None or name in self._only else name

    def _text(self, text: str) -> str:
        """Return *text* without tokens, and with pseudonyms in place of players, however these are written."""
        text = _SECRET_TEXT.sub(LEFT_OUT, _encodable(text))
        if self._finds is None:
            return text
        rest = _folded("\n".join(_readings(self._finds.sub("\n", text))))
        is_inside = any(each in rest and _is_inside(each, rest) for each in self._inside)
        return LEFT_OUT if is_inside else self._finds.sub(self._replaced, text)

    def _replaced(self, found: "re.Match[str]") -> str:
        name = found[0]
        if name not in self._ids:  # In another case.
            name = next((each for each in self._ids if each.lower() == name.lower()), name)
        return name if name == self._keep else self.pseudonym(name)

    def _foreign(self, value: Any, path: _Path = ()) -> Any:  # Any: JSON.
        """Return JSON from outside that stands at *path*; hiding, with the values of known fields alone."""
        if len(path) > 1 and path[0] == "bets":  # The items of a batch and of a round are like a single one.
            path = path[1:]
        match value:
            case None:
                return None
            case dict() if not self._hides or path in self._containers:
                return {
                    self._name(name, (*path, name)): self._member(item, (*path, name)) for name, item in value.items()
                }
            case list() | tuple() if not self._hides or path in self._containers:
                return [self._foreign(item, path) for item in value]
            case str() if not self._hides:
                return self._text(value)
        return self._scalar(value, self._known.get(path)) if self._hides else value

    def _member(self, value: Any, path: _Path) -> Any:  # Any: JSON.
        is_secret = _SECRET_KEY.search(path[-1]) and value not in (None, "", True, False)
        return LEFT_OUT if is_secret else self._foreign(value, path)

    def _scalar(self, value: Any, kind: _Kind | None) -> Any:  # Any: JSON.
        if kind is None or isinstance(value, bool | dict | list) or (kind == "number" and isinstance(value, str)):
            return LEFT_OUT
        if kind == "number":
            return value
        text = self._person(str(value)) if kind == "person" else self._text(str(value))
        return value if text == str(value) else text

    def _name(self, name: str, path: _Path) -> str:
        clean = self._text(name)
        is_plain = not self._hides or path in self._known or (clean == name and _FIELD_NAME.fullmatch(name))
        return clean if is_plain else LEFT_OUT

    def _body(self, data: bytes) -> dict[str, object]:
        """Return bytes, with their SHA-256 unless people are hidden; as text, in Base64, rewritten, or left out."""
        described = {"sha256": LEFT_OUT if self._hides else sha256(data).hexdigest(), "bytes": len(data)}
        value = _parsed(data)
        if value is _UNREADABLE:
            if data and (self._hides or _is_suspect(data.decode("latin-1"))):
                why = "It is not JSON, so nothing says what is secret in it."
                return described | {"encoding": "left out", "data": None, "note": why}
        elif (clean := self._foreign(value)) != value:
            why = "only known fields are shown" if self._hides else "these bytes do not have the SHA-256 above"
            note = f"Rewritten: {why}. {LEFT_OUT} stands for what is not shown."
            return described | {"encoding": "utf-8", "data": encode_json(clean).decode(), "note": note}
        try:
            return described | {"encoding": "utf-8", "data": data.decode(), "note": ""}
        except UnicodeDecodeError:
            return described | {"encoding": "base64", "data": b64encode(data).decode(), "note": ""}


def _known_fields(profile: Profile) -> dict[_Path, _Kind]:
    """Return the fields of bodies and of the provider's answers that stay, by their paths, with what they hold."""
    known: dict[str, _Kind] = dict.fromkeys({*ClosedBet.model_fields, *RoundFound.model_fields} - {"bets"}, "text")
    known |= dict.fromkeys(("wager", "won", "timestamp", "round_no"), "number")
    for key, paths in profile.fields.items():
        canonical = key.partition(".")[0]
        if canonical == "free_bets":
            known |= dict.fromkeys((f"{path}.{name}" for path in paths for name in ("id", "round_id")), "text")
            known |= dict.fromkeys((f"{path}.{name}" for path in paths for name in ("wager", "won")), "number")
        else:
            known |= dict.fromkeys(paths, "number" if canonical.endswith("_cents") else "text")
    # Last: what names a player in one call names a player everywhere.
    players = (paths for key, paths in profile.fields.items() if key.startswith("player_id"))
    known |= dict.fromkeys(("player_id", *chain.from_iterable(players)), "person")
    return {tuple(path.split(".")): kind for path, kind in known.items()}


_UNREADABLE: Final = object()


def _parsed(data: bytes) -> object:
    try:
        return read_json(data)
    except (MalformedCallError, RecursionError):
        return _UNREADABLE


def _is_suspect(text: str) -> bool:
    """Return whether a text that is not JSON may hold a secret; what is escaped in it cannot be told."""
    return "\\u" in text or _SECRET_KEY.search(text) is not None or _SECRET_TEXT.search(text) is not None


def _encodable(text: str) -> str:
    # JSON could write a lone surrogate down, and hardly any program could read it.
    return text.encode(errors="backslashreplace").decode()


def _readings(text: str) -> Iterator[str]:
    """Yield *text* as it is, without the encoding of addresses, and what it is in Base64 and hexadecimal."""
    once = unquote(text)
    yield from (text, once, unquote_plus(once))
    for run in _RUN.findall(once):
        for start in range(4):  # Where a group of four begins is unknown, in the middle of a text.
            letters = run[start:].replace("-", "+").replace("_", "/")
            letters = letters[: -1 if len(letters) % 4 == 1 else None]
            yield b64decode(letters + "=" * (-len(letters) % 4)).decode(errors="replace")
    for digits in re.findall(r"[0-9A-Fa-f]{4,}", once):
        for start in range(2):
            even = digits[start:][: (len(digits) - start) // 2 * 2]
            yield bytes.fromhex(even).decode(errors="replace")


def _folded(text: str) -> str:
    """Return *text* such that spellings which people read alike are equal."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _is_inside(name: str, text: str) -> bool:
    """Return whether *name* stands in *text*, and is not a part of a longer number; a short one, of a longer word."""
    part = "[0-9a-z]" if len(name) < _LEAST_INSIDE else "[0-9]"
    before = f"(?<!{part})" if part != "[0-9]" or name[0].isdigit() else ""
    after = f"(?!{part})" if part != "[0-9]" or name[-1].isdigit() else ""
    return re.search(before + re.escape(name) + after, text) is not None
