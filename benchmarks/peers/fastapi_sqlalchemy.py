"""
The wallet that one writes by hand, and well: FastAPI, pydantic, SQLAlchemy's async ORM over asyncpg.

One transaction a call: is the transaction known, lock the player's row, take the wager, keep bet and transaction. A
race for the same transaction ends at the unique constraint and is answered from the row that won.
"""

import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from sqlalchemy import BigInteger, Text, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

__all__ = ["create_tables", "fastapi_app", "peers_bets"]


class Base(DeclarativeBase):
    """The tables."""

    type_annotation_map: ClassVar = {str: Text, int: BigInteger}


class Player(Base):
    """A player and what he holds."""

    __tablename__ = "players"
    id: Mapped[str] = mapped_column(primary_key=True)
    balance_cents: Mapped[int]


class Bet(Base):
    """A bet and where it stands."""

    __tablename__ = "bets"
    id: Mapped[str] = mapped_column(primary_key=True)
    player_id: Mapped[str]
    game: Mapped[str]
    instance_id: Mapped[str]
    wager_cents: Mapped[int]
    status: Mapped[str]


class Transaction(Base):
    """A movement of money, once for each transaction of the service."""

    __tablename__ = "transactions"
    id: Mapped[str] = mapped_column(primary_key=True)
    player_id: Mapped[str]
    bet_id: Mapped[str]
    amount_cents: Mapped[int]
    balance_cents: Mapped[int]
    at_millis: Mapped[int]


class Withdraw(BaseModel):
    """The body of a withdraw."""

    player_id: str = Field(min_length=1, max_length=256)
    amount: int = Field(gt=0, strict=True)
    game: str
    instance_id: str
    action: str
    action_id: str = Field(min_length=1, max_length=256)
    tx_id: str = Field(min_length=1, max_length=320)


def _address(url: str) -> str:
    return url.replace("postgresql://", "postgresql+asyncpg://", 1)


async def create_tables(url: str, players: int, opening_cents: int) -> None:
    """Make the tables and the players p1, p2 and so on."""
    engine = create_async_engine(_address(url))
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        rows = [{"id": f"p{number}", "balance_cents": opening_cents} for number in range(1, players + 1)]
        await connection.execute(insert(Player), rows)
    await engine.dispose()


async def peers_bets(url: str) -> int:
    """Return how many bets are stored."""
    engine = create_async_engine(_address(url))
    async with engine.connect() as connection:
        found = await connection.scalar(select(func.count()).select_from(Bet))
    await engine.dispose()
    return int(found or 0)


def fastapi_app(public_key: RSAPublicKey, url: str) -> FastAPI:
    """
    Return the application.

    As many connections as callers, kept open; asyncpg and SQLAlchemy keep the prepared statements of each and the
    compiled queries by themselves. The body is read by hand, for the signature is over its bytes.
    """
    engine = create_async_engine(_address(url), pool_size=32, max_overflow=0)
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    padding, sha256 = PKCS1v15(), SHA256()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.dispose()

    app = FastAPI(lifespan=lifespan)

    @app.post("/withdraw")
    async def withdraw(request: Request) -> JSONResponse:
        body = await request.body()
        try:
            signature = urlsafe_b64decode(request.headers.get("signature", "") + "==")
            public_key.verify(signature, body, padding, sha256)
        except (InvalidSignature, ValueError):
            return _error("INVALID_SIGNATURE")
        try:
            call = Withdraw.model_validate_json(body)
        except ValidationError:
            return _error("INVALID_REQUEST")
        try:
            async with sessions() as session, session.begin():
                return await _withdrawn(session, call)
        except IntegrityError:
            async with sessions() as session:
                known = await session.get(Transaction, call.tx_id)
            return _success(known.balance_cents) if known else _error("DUPLICATE_TRANSACTION")

    return app


async def _withdrawn(session: AsyncSession, call: Withdraw) -> JSONResponse:
    known = await session.get(Transaction, call.tx_id)
    if known is not None:
        return _success(known.balance_cents)
    player = await session.scalar(select(Player).where(Player.id == call.player_id).with_for_update())
    if player is None:
        return _error("PLAYER_NOT_FOUND")
    if player.balance_cents < call.amount:
        return _error("INSUFFICIENT_BALANCE", balance=player.balance_cents / 100)
    player.balance_cents -= call.amount
    placed = {"game": call.game, "instance_id": call.instance_id, "wager_cents": call.amount, "status": "OPEN"}
    session.add(Bet(id=call.action_id, player_id=call.player_id, **placed))
    moved = {"amount_cents": -call.amount, "balance_cents": player.balance_cents, "at_millis": _now_millis()}
    session.add(Transaction(id=call.tx_id, player_id=call.player_id, bet_id=call.action_id, **moved))
    return _success(player.balance_cents)


def _success(balance_cents: int) -> JSONResponse:
    return JSONResponse({"type": "SUCCESS", "balance": balance_cents / 100, "timestamp": _now_millis()})


def _error(code: str, **balance: float) -> JSONResponse:
    return JSONResponse({"type": "ERROR", "code": code, "timestamp": _now_millis(), **balance})


def _now_millis() -> int:
    return int(time.time() * 1000)
