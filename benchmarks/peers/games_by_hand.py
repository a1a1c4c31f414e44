"""The catalogue by hand: pydantic models as anybody writes them, over ``json.loads`` with exact amounts."""

import json
from decimal import Decimal

from pydantic import BaseModel

__all__ = ["games_of"]


class _BetConfig(BaseModel):
    min_wager: Decimal
    max_wager: Decimal
    default_wager: Decimal
    currency: str
    max_win: Decimal


class _GameInstance(BaseModel):
    id: str
    name: str
    active: bool
    bet_config: _BetConfig


class _Game(BaseModel):
    id: str
    name: str
    status: str
    thumbnail_url: str | None = None
    provider_name: str
    rtp: Decimal | None = None
    genre: str
    instances: list[_GameInstance]


class _Catalogue(BaseModel):
    games: list[_Game]


def games_of(body: bytes) -> list[_Game]:
    return _Catalogue.model_validate(json.loads(body, parse_float=Decimal)).games
