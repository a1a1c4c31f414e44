"""
Every choice that the specification leaves open about webhooks, as one frozen value.

None of this is the specification's: each field is *assumed*, names its decision note, and can be overridden without
touching this package, by ``Profile(...)``, by the same as TOML text, or by a callable that reads bodies itself.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

from game_operator.errors import ConfigurationError, one_line, shown
from game_operator.models.webhooks import WebhookCall

#: Reads a body for a service whose calls look different: (operation, body) to a call. The operation is
#: ``withdraw``, ``deposit``, ``rollback`` or ``player-balance``, and the call must be of it; its ``body`` is filled in.
#: A body that is not such a call raises MalformedCallError, answered INVALID_REQUEST. Anything else that is raised or
#: returned is a mistake of the parser's, answered SYSTEM_ERROR. It also reads each deposit of a batch by itself.
BodyParser = Callable[[str, bytes], WebhookCall]

#: The names under which each canonical field is looked for, in order; the first one present counts, null included
#: (docs/decisions/0010). A dot steps into an object. ``field.operation`` stands in the place of ``field``.
DEFAULT_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "player_id": ("player_id",),
        "bet_id": ("action_id", "bet_id", "reference_id"),
        "tx_id": ("tx_id", "transaction_id"),
        "amount_cents": ("amount",),
        "amount_cents.withdraw": ("amount", "wager"),
        "amount_cents.deposit": ("amount", "won", "action.won"),
        "action": ("action",),
        "action.deposit": ("action.type",),
        "wager_cents": ("action.wager",),
        "won_cents": ("action.won",),
        "free_bets": ("action.bets",),
        "jackpot_id": ("action.jackpot_id",),
        "round_id": ("round_id", "action.round_id"),
        "instance_id": ("instance_id",),
        "game": ("game",),
    }
)

#: A name as it is looked for: a member of the body, and the members to step through from there.
Path: TypeAlias = tuple[str, tuple[str, ...]]

#: What a service calls a wallet for (spec §4.1).
CALLS: Final = ("withdraw", "deposit", "rollback", "player-balance")
_CANONICAL: Final = tuple(name for name in DEFAULT_FIELDS if "." not in name)
#: Fields without which no call of these operations can be read.
_NEEDED: Final = {
    "player_id": CALLS,
    "bet_id": ("withdraw", "deposit", "rollback"),
    "amount_cents": ("withdraw", "deposit"),
}
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
#: Short enough for a tx_id that is derived from it and the longest bet_id, and without the colon that joins them.
_ACTION: Final = re.compile(r"[A-Za-z0-9_-]{1,40}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Names:
    """
    Where the fields of one operation's body are looked for; worked out once for each profile.

    The signature covers the body and not the path, so a body must show which call it is. Hence the last three.

    Attributes:
        paths: The paths of each canonical field, in order.
        marks: A deposit has something under at least one of these, which withdraws and rollbacks do not use. What has
            one of them and no action of a withdraw is not a withdraw or rollback.
        holders: A deposit that has one of these members has an object there, with the deposit's action in it.
        strangers: No withdraw or rollback has one of these members, in which a deposit keeps its action.
    """

    paths: Mapping[str, tuple[Path, ...]]
    marks: tuple[Path, ...]
    holders: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """
    What is assumed about webhooks, their authentication, their replies and their repeats.

    Attributes:
        fields: Names of the body's fields by canonical name; what is given here is laid over the defaults (0010).
            No names at all stand for a field that the service does not have.
        withdraw_actions: Actions that a withdraw or rollback may have, ``BET`` among them; another is refused (0010).
        spent_actions: Those among them whose bet no deposit ever settles (0014).
        claim_types: Types of deposit that credit without a bet, as free bets and jackpots do (0010).
        signature_header: The header that carries the signature, in any case (0011).
        unauthenticated_status: HTTP status of a call that no known key signed: 200 (spec §4.1) or 401 (0011).
        codes: ``extended``, or ``core`` to answer with five codes and SYSTEM_ERROR alone (0013).
        allow_zero_withdraw: Whether a withdraw of 0 is a bet (0010).
        unknown_rollback: Whether a rollback of a bet that was never debited answers ``error`` or ``success`` (0014).
        rollback_tx_id: ``withdraw`` when a rollback carries its withdraw's tx_id, ``own`` when it has its own (0014).
        early_deposit_code: What a deposit before its withdraw is answered (0013).
        duplicate_reply: ``current`` balance and time for a repeat, or the first reply ``verbatim`` (0012).
        rollback_may_equal_withdraw: Whether a rollback's body may be its withdraw's, byte for byte (0011).
        deposit_batch: Whether ``/deposit-batch`` and ``/deposit/batch`` are served (0010).
        max_body_bytes: The longest body of a call; a longer one is SYSTEM_ERROR, because nobody has read it (0013).
        max_batch_bytes: The longest body of a batch.
        parse: Reads bodies in place of ``fields``, actions and claim types; see ``BodyParser`` for what it must do.

    Raises:
        ConfigurationError: A field cannot have such a value; the message lists those that it can have.
    """

    fields: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: DEFAULT_FIELDS, hash=False)
    withdraw_actions: tuple[str, ...] = ("BET", "RAIN")
    spent_actions: tuple[str, ...] = ("RAIN",)
    claim_types: tuple[str, ...] = ("FREE_BET_CLAIM", "JACKPOT")
    signature_header: str = "signature"
    unauthenticated_status: Literal[200, 401] = 200
    codes: Literal["extended", "core"] = "extended"
    allow_zero_withdraw: bool = False
    unknown_rollback: Literal["error", "success"] = "error"
    rollback_tx_id: Literal["withdraw", "own"] = "withdraw"
    early_deposit_code: Literal["BET_NOT_FOUND", "SYSTEM_ERROR"] = "BET_NOT_FOUND"
    duplicate_reply: Literal["current", "verbatim"] = "current"
    rollback_may_equal_withdraw: bool = False
    deposit_batch: bool = False
    max_body_bytes: int = 65_536
    max_batch_bytes: int = 1_048_576
    parse: BodyParser | None = None
    _names: Mapping[str, Names] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for each in _settings(self):
            problem = _problem(each.name, getattr(self, each.name))
            if problem:
                raise ConfigurationError(problem)
        for name in ("withdraw_actions", "spent_actions", "claim_types"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        merged = {**DEFAULT_FIELDS, **{name: tuple(names) for name, names in self.fields.items()}}
        object.__setattr__(self, "fields", MappingProxyType(merged))
        problem = _problem_of_actions(self) or _problem_of_names(self)
        if problem:
            raise ConfigurationError(problem)
        names = {operation: _names(self, operation) for operation in CALLS}
        object.__setattr__(self, "_names", MappingProxyType(names))

    def __repr__(self) -> str:
        # It is the default of parameters, so that only what is not the default is shown.
        own_names = {key: names for key, names in self.fields.items() if names != DEFAULT_FIELDS.get(key)}
        changed: dict[str, object] = {"fields": own_names} if own_names else {}
        for each in _settings(self):
            if each.name != "fields" and getattr(self, each.name) != each.default:
                changed[each.name] = getattr(self, each.name)
        return f"Profile({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only view of a mapping does not pickle.
        values = {each.name: getattr(self, each.name) for each in _settings(self)}
        return partial(Profile, **values | {"fields": dict(self.fields)}), ()

    def names(self, operation: str) -> Names:
        """Return where the fields of *operation* are looked for."""
        return self._names[operation]

    def names_of(self, canonical: str, operation: str) -> tuple[str, ...]:
        """Return the names under which *canonical* is looked for in a body of *operation*."""
        own = self.fields.get(f"{canonical}.{operation}")
        return self.fields.get(canonical, ()) if own is None else own

    @classmethod
    def from_toml(cls, text: str) -> "Profile":
        """
        Return the profile that *text* describes: its keys are the attributes above, ``fields`` is a table.

        Raises:
            TypeError: *text* is not a str.
            ConfigurationError: The text is not TOML, or has a key or value that a profile does not; it is named.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"text must be the TOML itself, not {type(text).__name__}. For a file, pass path.read_text()."
            )
        try:
            document = tomllib.loads(text)
        except (ValueError, RecursionError) as broken:
            raise ConfigurationError(f"The profile is not TOML: {one_line(str(broken))}. Fix that line.") from None
        known = {each.name for each in _settings(cls)} - {"parse"}
        unknown = sorted(set(document) - known)
        if unknown:
            raise ConfigurationError(f"A profile has no {shown(unknown[0])}. It can have {', '.join(sorted(known))}.")
        return cls(**document)

    def to_toml(self) -> str:
        """Return this profile as TOML text, which ``from_toml`` reads back; ``parse`` has no text and is left out."""
        simple = [each.name for each in _settings(self) if each.name not in ("fields", "parse")]
        lines = [f"{name} = {_toml(getattr(self, name))}" for name in simple]
        table = [f"{_toml(name)} = {_toml(names)}" for name, names in self.fields.items()]
        return "\n".join([*lines, "", "[fields]", *table, ""])


_HINTS: Final = get_type_hints(Profile)


def _settings(profile: "Profile | type[Profile]") -> Iterator["Field[Any]"]:
    return (each for each in fields(profile) if each.init)


def _problem(name: str, value: object) -> str:
    """Return what is wrong with *value* for the setting *name*, or ""."""
    hint = _HINTS[name]
    valid: object
    if name == "fields":
        return _problem_of_fields(value)
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        valid = any(value == choice and type(value) is type(choice) for choice in choices)
        kind = f"one of {', '.join(map(repr, choices))}"
    elif hint is bool:
        valid, kind = isinstance(value, bool), "true or false"
    elif hint is int:
        valid, kind = type(value) is int and value > 0, "a whole number above 0"
    elif hint is str:
        valid, kind = isinstance(value, str) and _HEADER.fullmatch(value), "the name of a header"
    elif name == "parse":
        valid, kind = value is None or callable(value), "a callable"
    else:
        valid, kind = _is_words(value, _ACTION), "a sequence of words of A-Z, 0-9, _ and -"
    return "" if valid else f"{name} must be {kind}, not {shown(value)}."


def _problem_of_fields(value: object) -> str:
    if not isinstance(value, Mapping):
        return f"fields must be a table of names, not {shown(value)}."
    for key, names in value.items():
        if key not in DEFAULT_FIELDS and key not in _SPECIFIC:
            # Most likely meant: the canonical name of what the body calls so.
            meant = [name for name in _CANONICAL if key in DEFAULT_FIELDS[name]]
            hint = f" Did you mean {meant[0]}?" if meant else ""
            known = ", ".join(_CANONICAL)
            return f"fields has no {shown(key)}.{hint} It can have {known}, each also as in bet_id.withdraw."
        if isinstance(names, Mapping):
            return f'fields.{key} must be a sequence of names. In TOML, write a key such as "{key}.withdraw" in quotes.'
        if not _is_words(names, _NAME):
            return f"fields.{key} must be a sequence of names, with dots between steps, not {shown(names)}."
    for key in _CANONICAL:
        hidden = [name for name in DEFAULT_FIELDS if name.startswith(f"{key}.") and name not in value]
        if key in value and hidden:
            # It would be looked up for the other calls only, without any sign of that.
            return f"fields has {key}, which does not replace the default of {hidden[0]}. Give that one as well."
    return ""


_SPECIFIC: Final = frozenset(f"{canonical}.{operation}" for canonical in _CANONICAL for operation in CALLS)
#: Printable, so that it stands in TOML and in a log as it is; no step of it empty.
_NAME: Final = re.compile(r"[^.]+(?:\.[^.]+)*")


def _is_words(value: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, tuple | list) and all(
        isinstance(word, str) and word.isprintable() and pattern.fullmatch(word) for word in value
    )


def _problem_of_actions(profile: Profile) -> str:
    """Return why the actions of *profile* could mistake one call for another, or ""."""
    for name in ("withdraw_actions", "claim_types"):
        words = [word.lower() for word in getattr(profile, name)]
        if len(words) != len(set(words)):
            return f"{name} has two words that differ in case alone, or not at all: their tx_ids would be the same."
    if "BET" not in profile.withdraw_actions:
        return "withdraw_actions must have BET, the action of a body that names none."
    if "bet" in map(str.lower, profile.claim_types):
        return "claim_types cannot have BET: a deposit of that type settles its bet."
    unknown = [word for word in profile.spent_actions if word not in profile.withdraw_actions or word == "BET"]
    return f"spent_actions can have words of withdraw_actions but BET, not {shown(unknown[0])}." if unknown else ""


def _problem_of_names(profile: Profile) -> str:
    """Return why no call could be read by the fields of *profile*, or ""."""
    for canonical, operations in _NEEDED.items():
        for operation in operations:
            if not profile.names_of(canonical, operation):
                return f"fields.{canonical} must have a name: a {operation} cannot do without."
    if not _marks(profile):
        return (
            "fields gives a deposit no name that a withdraw lacks, so a withdraw's body could be sent to /deposit. "
            "Give one to action.deposit or amount_cents.deposit, or pass parse=."
        )
    return ""


def _names(profile: Profile, operation: str) -> Names:
    paths = {canonical: _paths(profile.names_of(canonical, operation)) for canonical in _CANONICAL}
    if operation == "deposit":
        holders = tuple(first for first, rest in paths["action"] if rest)
        return Names(MappingProxyType(paths), marks=_marks(profile), holders=holders)
    own = {first for first, _ in paths["action"]}
    strangers = (first for first, _ in _paths(profile.names_of("action", "deposit")) if first not in own)
    return Names(MappingProxyType(paths), marks=_marks(profile), strangers=tuple(strangers))


def _marks(profile: Profile) -> tuple[Path, ...]:
    own = [*profile.names_of("action", "deposit"), *profile.names_of("amount_cents", "deposit")]
    others = {
        name
        for canonical in ("action", "amount_cents")
        for operation in ("withdraw", "rollback")
        for name in profile.names_of(canonical, operation)
    }
    return _paths(name for name in own if name not in others)


def _paths(names: Iterable[str]) -> tuple[Path, ...]:
    split = (name.split(".") for name in names)
    return tuple((first, tuple(rest)) for first, *rest in split)


def _toml(value: str | int | tuple[str, ...]) -> str:
    return json.dumps(value, ensure_ascii=False)  # What a profile holds is written in TOML as in JSON.
