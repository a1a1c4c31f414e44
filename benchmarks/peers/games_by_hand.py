"""
The catalogue by hand: pydantic models as anybody writes them, over ``json.loads`` with exact amounts.

They hold what ours hold: frozen values, unknown members kept, and a status and genre that may be new.
"""

import json
from decimal import Decimal

from pydantic import BaseModel, ConfigDict

from game_operator.codes import GameStatus, Genre

__all__ = ["games_of"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class _BetConfig(_Model):
    min_wager: Decimal
    max_wager: Decimal
    default_wager: Decimal
    currency: str
    max_win: Decimal


class _GameInstance(_Model):
    id: str
    name: str
    active: bool
    bet_config: _BetConfig


class _Game(_Model):
    id: str
    name: str
    status: GameStatus | str
    thumbnail_url: str | None = None
    provider_name: str
    rtp: Decimal | None = None
    genre: Genre | str
    instances: tuple[_GameInstance, ...]


class _Catalogue(_Model):
    games: list[_Game]


def games_of(body: bytes) -> list[_Game]:
    return _Catalogue.model_validate(json.loads(body, parse_float=Decimal)).games
