"""
The wallet that one writes by hand, and well: FastAPI, pydantic, SQLAlchemy's async ORM over asyncpg.

One transaction a call: is the transaction known, lock the player's row, take the wager, keep bet and transaction. A
race for the same transaction ends at the unique constraint and is answered from the row that won.
"""

import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from sqlalchemy import BigInteger, Executable, Text, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

__all__ = ["check_peers_books", "create_tables", "fastapi_app", "peers_bets"]


class Base(DeclarativeBase):
    """The tables."""


class Player(Base):
    """A player and what he holds."""

    __tablename__ = "players"
    id: Mapped[str] = mapped_column(Text, primary_key=True)
    balance_cents: Mapped[int] = mapped_column(BigInteger)


class Bet(Base):
    """A bet and where it stands."""

    __tablename__ = "bets"
    id: Mapped[str] = mapped_column(Text, primary_key=True)
    player_id: Mapped[str] = mapped_column(Text)
    game: Mapped[str] = mapped_column(Text)
    instance_id: Mapped[str] = mapped_column(Text)
    wager_cents: Mapped[int] = mapped_column(BigInteger)
    status: Mapped[str] = mapped_column(Text)


class Transaction(Base):
    """A movement of money, once for each transaction of the service."""

    __tablename__ = "transactions"
    id: Mapped[str] = mapped_column(Text, primary_key=True)
    player_id: Mapped[str] = mapped_column(Text)
    bet_id: Mapped[str] = mapped_column(Text)
    amount_cents: Mapped[int] = mapped_column(BigInteger)
    balance_cents: Mapped[int] = mapped_column(BigInteger)
    at_millis: Mapped[int] = mapped_column(BigInteger)


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
    return await _number(url, select(func.count()).select_from(Bet))


async def check_peers_books(url: str, opening_cents: int) -> None:
    """Raise RuntimeError unless the balances are what was there at first and has moved since."""
    held = select(func.sum(Player.balance_cents)).scalar_subquery()
    moved = select(func.coalesce(func.sum(Transaction.amount_cents), 0)).scalar_subquery()
    # One statement, for a call that nobody waits for any more may be under way.
    lost = await _number(url, select(held - moved - opening_cents))
    if lost:
        raise RuntimeError(f"the peer's books do not balance: {lost} cents too many")


async def _number(url: str, statement: Executable) -> int:
    engine = create_async_engine(_address(url))
    async with engine.connect() as connection:
        found = await connection.scalar(statement)
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
        return _error("INSUFFICIENT_BALANCE", player.balance_cents)
    player.balance_cents -= call.amount
    session.add(
        Bet(
            id=call.action_id,
            player_id=call.player_id,
            game=call.game,
            instance_id=call.instance_id,
            wager_cents=call.amount,
            status="OPEN",
        )
    )
    session.add(
        Transaction(
            id=call.tx_id,
            player_id=call.player_id,
            bet_id=call.action_id,
            amount_cents=-call.amount,
            balance_cents=player.balance_cents,
            at_millis=int(time.time() * 1000),
        )
    )
    return _success(player.balance_cents)


def _success(balance_cents: int) -> JSONResponse:
    told: dict[str, Any] = {"type": "SUCCESS", "balance": balance_cents / 100, "timestamp": int(time.time() * 1000)}
    return JSONResponse(told)


def _error(code: str, balance_cents: int | None = None) -> JSONResponse:
    told: dict[str, Any] = {"type": "ERROR", "code": code, "timestamp": int(time.time() * 1000)}
    if balance_cents is not None:
        told["balance"] = balance_cents / 100
    return JSONResponse(told)
