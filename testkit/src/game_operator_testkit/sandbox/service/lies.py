"""
What the Operator API answers in place of the truth, for tests of a program that must not believe everything.

A lie is about one bet or one round, and answers calls with a valid signature.
"""

from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import Any, Literal, TypeAlias

from pydantic_core import from_json

from game_operator.errors import ConfigurationError
from game_operator.protocol.exact_json import Json, encode_json
from game_operator.protocol.http import HttpReply, HttpRequest
from game_operator.protocol.operations import AnyBet, AnyRound
from game_operator_testkit.sandbox.service.operator_api import recognise

#: Fields in place of the true ones, another bet or round, or a body byte for byte.
Lie: TypeAlias = Mapping[str, Json] | AnyBet | AnyRound | bytes
_About: TypeAlias = tuple[Literal["bet", "round"], str]


class Lies:
    """The lies of a running sandbox, told and taken back from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        #: What is answered, and how often it is still answered; None for ever.
        self._lies: dict[_About, tuple[Lie, int | None]] = {}

    def about_bet(self, bet_id: str, lie: Lie, *, times: int | None = None) -> None:
        """
        Let fetch-bet answer *lie* for the bet *bet_id*. A later lie about the same bet replaces this one.

        Args:
            bet_id: The bet, known or not.
            lie: A mapping has fields in place of the true ones, such as ``{"won": 99_999}``. A bet model is the whole
                answer: another bet, or ``BetNotFound()``. Bytes are the body as it is.
            times: For how many calls; None for all.

        Raises:
            ConfigurationError: *times* is less than 1.
        """
        self._tell(("bet", bet_id), lie, times)

    def about_round(self, round_id: str, lie: Lie, *, times: int | None = None) -> None:
        """Let fetch-round-bets answer *lie* for the round *round_id*, by its id or number; see ``about_bet``."""
        self._tell(("round", round_id), lie, times)

    def clear(self) -> None:
        """Answer the truth again."""
        with self._lock:
            self._lies.clear()

    def told(self, request: HttpRequest, true: HttpReply) -> HttpReply:
        """Return the response to *request*: *true*, or a lie, which counts as told."""
        about = _about(request, true) if self._lies else None
        with self._lock:
            if about is None or about not in self._lies:
                return true
            lie, left = self._lies.pop(about)
            if left is None or left > 1:
                self._lies[about] = lie, left and left - 1
        return replace(true, status=200, body=_body(lie, true))

    def _tell(self, about: _About, lie: Lie, times: int | None) -> None:
        if times is not None and times < 1:
            raise ConfigurationError(f"A lie cannot be told {times} times. Pass 1 or more, or None for ever.")
        with self._lock:
            self._lies[about] = lie, times


def _about(request: HttpRequest, true: HttpReply) -> _About | None:
    call = recognise(request)
    if isinstance(call, HttpReply):
        return None
    if call.endpoint == "fetch-bet":
        return "bet", call.bet_id
    if call.endpoint != "fetch-round-bets" or true.status != 200:
        return None
    # The round was perhaps asked for by its number. Of one that is not found, only the question has the id.
    return "round", str(_fields(true.body).get("round_id") or _fields(call.body).get("round_id"))


def _body(lie: Lie, true: HttpReply) -> bytes:
    if isinstance(lie, bytes):
        return lie
    return encode_json({**_fields(true.body), **lie} if isinstance(lie, Mapping) else lie.model_dump())


def _fields(body: bytes) -> dict[str, Any]:  # Any: what JSON holds.
    fields = from_json(body)
    return fields if isinstance(fields, dict) else {}
