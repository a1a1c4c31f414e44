"""
A faster way to read a large catalogue: column by column instead of value by value.

pydantic visits each of the many thousands of values, and gives each of its models a set of field names. Here all values
of a field are checked at once, and the models of a kind share that set. Limits that are written alike are read once and
are one object, which is safe because models are frozen: they are cut out of the body before it is read, where they are
half of its members. What is read is what pydantic reads, or nothing: ``catalogue_of`` returns None for a body that is
not regular, and pydantic then reads it, or says what is wrong with it. A test holds the two together.
"""

import re
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
#: Where limits begin. In JSON, the second quotation mark can only end a name, and the brace begins the member's value.
_LIMITS_BEGIN: Final = re.compile(rb'"bet_config"\s*:\s*\{')
#: Stands for limits that were cut out.
_MARK: Final = -617_461_746_174_617
_AMOUNTS_OF_LIMITS: Final = tuple(name for name, field in BetConfig.model_fields.items() if field.annotation is Decimal)
_STATUSES: Final[Mapping[str, StrEnum]] = {status.value: status for status in GameStatus}
_GENRES: Final[Mapping[str, StrEnum]] = {genre.value: genre for genre in Genre}


class _IrregularError(Exception):
    """The body is not one that is read by columns."""


def catalogue_of(body: bytes) -> list[GameInfo] | None:
    """Return the games in *body*, or None if pydantic has to read it."""
    begin = _LIMITS_BEGIN.search(body)
    if not KNOWS_PYDANTIC or begin is None or b"%d" % _MARK in body:
        return None
    try:
        rest, texts = _without_limits(body, begin[0])
        answer, most = _json(rest)
        _check([answer], {dict})
        _check([answer.get("games")], {list})
        games: list[Members] = answer["games"]
        _check(games, {dict})
        lists = _column(games, "instances", {list})
        instances: list[Members] = list(chain.from_iterable(lists))
        _check(instances, {dict})
        _check_members(most, chain([answer], games, instances))
        read = iter(_instances(instances, _limits(texts)))
        return _games(games, [tuple(islice(read, count)) for count in map(len, lists)])
    except (_IrregularError, KeyError, ValueError, PydanticCustomError):
        return None


def _without_limits(body: bytes, begin: bytes) -> tuple[bytes, list[bytes]]:
    """Return *body* with marks instead of limits, and the text of each limits."""
    first, *others = body.split(begin)
    cut = list(map(bytes.partition, others, repeat(b"}")))
    _check(cut, {b"}"}, itemgetter(1))
    mark = begin[:-1] + b"%d" % _MARK
    return mark.join(chain([first], map(itemgetter(2), cut))), list(map(itemgetter(0), cut))


def _json(body: bytes) -> tuple[Any, int]:  # Any: values are checked by column.
    """Return what *body* says, and how many members it has, or more."""
    shape = shape_of(body)
    if needs_digits(shape):
        raise _IrregularError
    return from_json(body, allow_inf_nan=False, cache_strings="keys"), most_members(shape)


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


def _instances(instances: list[Members], limits: list[BetConfig]) -> list[GameInstance]:
    members, fields_sets = _ordered(instances, GameInstance)
    for name in ("id", "name"):
        _column(members, name, {str})
    _column(members, "active", {bool})
    # Each instance has a mark, and there are as many limits: so they have the same order.
    _check(_column(members, "bet_config", {int}), {_MARK}, int)
    _check([limits], {len(instances)}, len)
    _replace(members, "bet_config", limits)
    return _built(GameInstance, members, fields_sets)


def _limits(texts: list[bytes]) -> list[BetConfig]:
    different = dict.fromkeys(texts)
    read, most = _json(b"[{%b}]" % b"},{".join(different))
    # No text has a brace that closes. So if there are as many objects, each is one text.
    _check(read, {dict})
    _check([read], {len(different)}, len)
    _check_members(most, read)
    members, fields_sets = _ordered(read, BetConfig)
    for name in _AMOUNTS_OF_LIMITS:
        _replace(members, name, map(amount_of_double, _column(members, name, _NUMBERS)))
    _column(members, "currency", {str})
    models = _built(BetConfig, members, fields_sets)
    return list(map(dict(zip(different, models, strict=True)).__getitem__, texts))


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


def _check_members(most: int, objects: Iterable[Members]) -> None:
    if most > sum(map(len, objects)):
        raise _IrregularError  # One may stand twice.


def _replace(members: list[Members], name: str, values: Iterable[object]) -> None:
    deque(map(dict.__setitem__, members, repeat(name), values), maxlen=0)


def _built(kind: type[ModelT], members: list[Members], fields_sets: Iterable[set[str]]) -> list[ModelT]:
    """Return a model for each of *members*, as pydantic makes it. A loop in C takes a third of one in Python."""
    made: list[ModelT] = list(map(object.__new__, repeat(kind, len(members))))
    extras: list[Members] = [{} for _ in made]
    for slot, values in zip(_SLOTS, (members, fields_sets, extras, repeat(None)), strict=True):
        deque(map(vars(BaseModel)[slot].__set__, made, values), maxlen=0)
    return made
