"""
A faster way to read a large catalogue: column by column instead of value by value.

pydantic visits each of the many thousands of values, and gives each of its models a set of field names. Here all values
of a field are checked at once, the models of a kind share that set, and equal limits are one object, which is safe
because models are frozen. What is read is what pydantic reads, or nothing: ``catalogue_of`` returns None for a body
that is not regular, and pydantic then reads it, or says what is wrong with it. A test holds the two together.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from decimal import Decimal
from enum import StrEnum
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel
from pydantic_core import PydanticCustomError, from_json

from game_operator.codes import GameStatus, Genre
from game_operator.models.operator_api import BetConfig, GameInfo, GameInstance
from game_operator.models.wire import WireModel, amount_of_double, most_members, needs_digits, shape_of

ModelT = TypeVar("ModelT", bound=WireModel)
#: A JSON object. Any: its values are checked by column.
Members: TypeAlias = dict[str, Any]

#: All that an instance of a model consists of. ``model_construct`` sets the same, and would take as long as pydantic.
_SLOTS: Final = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
#: Whether pydantic's models are still made of these. Where they are not, every catalogue is read by pydantic.
KNOWS_PYDANTIC: Final = set(BaseModel.__slots__) == set(_SLOTS)

_NUMBERS: Final = {int, float}
_ROW_OF_LIMITS: Final = itemgetter(*BetConfig.model_fields)
_AMOUNTS_OF_LIMITS: Final = tuple(name for name, field in BetConfig.model_fields.items() if field.annotation is Decimal)
_STATUSES: Final[Mapping[str, StrEnum]] = {status.value: status for status in GameStatus}
_GENRES: Final[Mapping[str, StrEnum]] = {genre.value: genre for genre in Genre}


class _IrregularError(Exception):
    """The body is not one that is read by columns."""


def catalogue_of(body: bytes) -> list[GameInfo] | None:
    """Return the games in *body*, or None if pydantic has to read it."""
    shape = shape_of(body)
    if not KNOWS_PYDANTIC or needs_digits(shape):
        return None
    try:
        answer = from_json(body, allow_inf_nan=False, cache_strings="keys")
        _check([answer], {dict})
        _check([answer.get("games")], {list})
        games: list[Members] = answer["games"]
        _check(games, {dict})
        lists = _column(games, "instances", {list})
        instances: list[Members] = list(chain.from_iterable(lists))
        _check(instances, {dict})
        limits: list[Members] = _column(instances, "bet_config", {dict})
        if most_members(shape) > sum(map(len, chain([answer], games, instances, limits))):
            return None  # A member may stand twice.
        read = iter(_instances(instances, limits))
        return _games(games, [tuple(islice(read, count)) for count in map(len, lists)])
    except (_IrregularError, KeyError, ValueError, PydanticCustomError):
        return None


def _games(games: list[Members], instances: list[tuple[GameInstance, ...]]) -> list[GameInfo]:
    members, fields_sets = _ordered(games, GameInfo)
    for name in ("id", "name", "provider_name"):
        _column(members, name, {str})
    _column(members, "thumbnail_url", {str, type(None)})
    rates = _column(members, "rtp", {*_NUMBERS, type(None)})
    _replace(members, "rtp", [None if rate is None else amount_of_double(rate) for rate in rates])
    for name, known in (("status", _STATUSES), ("genre", _GENRES)):
        texts = _column(members, name, {str})
        _replace(members, name, map(known.get, texts, texts))
    _replace(members, "instances", instances)
    return _built(GameInfo, members, fields_sets)


def _instances(instances: list[Members], limits: list[Members]) -> list[GameInstance]:
    members, fields_sets = _ordered(instances, GameInstance)
    for name in ("id", "name"):
        _column(members, name, {str})
    _column(members, "active", {bool})
    _replace(members, "bet_config", _limits(limits))
    return _built(GameInstance, members, fields_sets)


def _limits(limits: list[Members]) -> list[BetConfig]:
    rows = list(map(_ROW_OF_LIMITS, limits))
    _check(limits, {len(BetConfig.model_fields)}, len)
    # Here, because true equals 1, and would be taken for a row that has been read.
    _check(chain.from_iterable(rows), {str, *_NUMBERS})
    return list(map(_Limits().__getitem__, rows))


class _Limits(dict[tuple[Any, ...], BetConfig]):
    """The limits by their values as they stand in the body; a catalogue repeats a few thousands of times."""

    def __missing__(self, row: tuple[Any, ...]) -> BetConfig:
        members = dict(zip(BetConfig.model_fields, row, strict=True))
        for name in _AMOUNTS_OF_LIMITS:
            _column([members], name, _NUMBERS)
            members[name] = amount_of_double(members[name])
        _column([members], "currency", {str})
        [limits] = _built(BetConfig, [members], [set(members)])
        self[row] = limits
        return limits


def _ordered(members: list[Members], kind: type[WireModel]) -> tuple[list[Members], Iterable[set[str]]]:
    """Return *members* in the order of the fields of *kind*, and for each the names of the fields that it has."""
    names = tuple(kind.model_fields)
    orders = set(map(tuple, members))
    if orders <= {names}:
        return members, repeat(set(names))
    required = {name for name, field in kind.model_fields.items() if field.is_required()}
    if not all(required <= set(order) <= set(names) for order in orders):
        raise _IrregularError
    return [{name: found.get(name) for name in names} for found in members], list(map(set, members))


def _column(members: Iterable[Members], name: str, types: set[type]) -> list[Any]:  # Any: of one of *types*.
    column = list(map(itemgetter(name), members))
    _check(column, types)
    return column


def _check(values: Iterable[Any], expected: set[Any], of: Any = type) -> None:  # Any: types by default, or lengths.
    if not set(map(of, values)) <= expected:
        raise _IrregularError


def _replace(members: list[Members], name: str, values: Iterable[object]) -> None:
    deque(map(dict.__setitem__, members, repeat(name), values), maxlen=0)


def _built(kind: type[ModelT], members: list[Members], fields_sets: Iterable[set[str]]) -> list[ModelT]:
    """Return a model for each of *members*, as pydantic makes it. A loop in C takes a third of one in Python."""
    made: list[ModelT] = list(map(object.__new__, repeat(kind, len(members))))
    extras: list[Members] = [{} for _ in made]
    for slot, values in zip(_SLOTS, (members, fields_sets, extras, repeat(None)), strict=True):
        deque(map(vars(BaseModel)[slot].__set__, made, values), maxlen=0)
    return made
