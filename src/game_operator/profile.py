"""
Every choice that the specification leaves open about webhooks, as one frozen value.

None of this is the specification's: each field is *assumed*, names its decision note, and can be overridden without
touching this package, by ``Profile(...)``, by the same as TOML text, or by a callable that reads bodies itself.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from game_operator.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from game_operator.models.webhooks import WebhookCall

__all__ = ["DEFAULT_FIELDS", "BodyParser", "Profile"]

#: Reads a body for a service whose calls look altogether different: (operation, body) to a call. The operation is
#: ``withdraw``, ``deposit``, ``rollback`` or ``player-balance``; it raises MalformedCallError for what is no call.
BodyParser = Callable[[str, bytes], "WebhookCall"]

#: The names under which each canonical field is looked for, in order; the first one present counts
#: (docs/decisions/0010). A dot steps into an object. ``field.operation`` stands before ``field``.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """
    What is assumed about webhooks, their authentication, their replies and their repeats.

    Attributes:
        fields: Names of the body's fields by canonical name; what is given here is laid over the defaults (0010).
        withdraw_actions: Actions that a withdraw or rollback may have; another is refused (0010).
        spent_actions: Those among them whose bet no deposit ever settles (0014).
        claim_types: Types of deposit that credit without a bet, as free bets and jackpots do (0010).
        signature_header: The header that carries the signature, in any case (0011).
        unauthenticated_status: HTTP status of a call that nobody known signed: 200 (spec §4.1) or 401 (0011).
        codes: ``extended``, or ``core`` to answer with five codes and SYSTEM_ERROR alone (0013).
        allow_zero_withdraw: Whether a withdraw of 0 is a bet (0010).
        unknown_rollback: Whether a rollback of a bet that was never debited answers ``error`` or ``success`` (0014).
        rollback_tx_id: ``withdraw`` when a rollback carries its withdraw's tx_id, ``own`` when it has its own (0014).
        early_deposit_code: What a deposit before its withdraw is answered (0013).
        duplicate_reply: ``current`` balance and time for a repeat, or the first reply ``verbatim`` (0012).
        rollback_may_equal_withdraw: Whether a rollback's body may be its withdraw's, byte for byte (0011).
        deposit_batch: Whether ``/deposit-batch`` and ``/deposit/batch`` are served (0010).
        max_body_bytes: The longest body of a call.
        max_batch_bytes: The longest body of a batch.
        max_batch_items: The most deposits in one batch.
        parse: Reads bodies in place of all the above.

    Raises:
        ConfigurationError: A value is none of those a field can have; the message lists them.
    """

    fields: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: DEFAULT_FIELDS)
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
    max_batch_items: int = 1_000
    parse: BodyParser | None = None

    def __post_init__(self) -> None:
        hints = _hints()
        for each in fields(self):
            problem = _problem(each.name, getattr(self, each.name), hints[each.name])
            if problem:
                raise ConfigurationError(problem)
        object.__setattr__(self, "fields", MappingProxyType({**DEFAULT_FIELDS, **self.fields}))

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only view of a mapping does not pickle.
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return _rebuilt, (values | {"fields": dict(self.fields)},)

    def names_of(self, canonical: str, operation: str) -> tuple[str, ...]:
        """Return the names under which *canonical* is looked for in a body of *operation*."""
        return self.fields.get(f"{canonical}.{operation}") or self.fields.get(canonical, ())

    @classmethod
    def from_toml(cls, text: str) -> "Profile":
        """
        Return the profile that *text* describes: its keys are the attributes above, ``fields`` is a table.

        Raises:
            ConfigurationError: The text is no TOML, or has a key or value that a profile does not; it is named.
        """
        try:
            document = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as broken:
            raise ConfigurationError(f"The profile is no TOML: {broken}. Mend that line.") from None
        known = {each.name for each in fields(cls)} - {"parse"}
        unknown = sorted(set(document) - known)
        if unknown:
            raise ConfigurationError(f"A profile has no {shown(unknown[0])}. It can have {', '.join(sorted(known))}.")
        return cls(**{name: _from_toml(value) for name, value in document.items()})

    def to_toml(self) -> str:
        """Return this profile as TOML text, which ``from_toml`` reads back; ``parse`` has no text and is left out."""
        simple = [each.name for each in fields(self) if each.name not in ("fields", "parse")]
        lines = [f"{name} = {_toml(getattr(self, name))}" for name in simple]
        table = [f"{_toml(name)} = {_toml(names)}" for name, names in self.fields.items()]
        return "\n".join([*lines, "", "[fields]", *table, ""])


def _rebuilt(values: dict[str, Any]) -> Profile:
    return Profile(**values)


_CACHED_HINTS: dict[str, Any] = {}


def _hints() -> dict[str, Any]:
    if not _CACHED_HINTS:
        _CACHED_HINTS.update(get_type_hints(Profile, localns={"WebhookCall": object}))
    return _CACHED_HINTS


def _problem(name: str, value: object, hint: Any) -> str:
    """Return what is wrong with *value*, or ""."""
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        alike = any(value == choice and type(value) is type(choice) for choice in choices)
        return "" if alike else f"{name} must be one of {', '.join(map(repr, choices))}, not {shown(value)}."
    if hint is bool:
        return "" if isinstance(value, bool) else f"{name} must be true or false, not {shown(value)}."
    if hint is int:
        whole = type(value) is int and value > 0
        return "" if whole else f"{name} must be a whole number above 0, not {shown(value)}."
    if hint is str:
        plain = isinstance(value, str) and value.isascii() and bool(value.strip()) and value.isprintable()
        return "" if plain else f"{name} must be the name of a header, not {shown(value)}."
    if name == "parse":
        return "" if value is None or callable(value) else f"parse must be a callable, not {shown(value)}."
    if name == "fields":
        return _problem_of_fields(value)
    return "" if _is_words(value) else f"{name} must be a sequence of words, not {shown(value)}."


def _problem_of_fields(value: object) -> str:
    if not isinstance(value, Mapping):
        return f"fields must be a table of names, not {shown(value)}."
    for canonical, names in value.items():
        if canonical not in DEFAULT_FIELDS and str(canonical).split(".")[0] not in DEFAULT_FIELDS:
            return f"fields has no {shown(canonical)}. It can have {', '.join(DEFAULT_FIELDS)}."
        if not _is_words(names):
            return f"fields.{canonical} must be a sequence of names, not {shown(names)}."
    return ""


def _is_words(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(word, str) and word for word in value)


def _from_toml(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _from_toml(item) for name, item in value.items()}
    return tuple(value) if isinstance(value, list) else value


def _toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case tuple() | list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} has no TOML form here")
