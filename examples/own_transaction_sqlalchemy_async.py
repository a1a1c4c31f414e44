"""
A bet and the operator's own rows in one SQLAlchemy transaction of asyncio: together, or not at all.

It needs the packages sqlalchemy and aiosqlite. With an address it runs on PostgreSQL, and needs asyncpg:
python own_transaction_sqlalchemy_async.py postgresql:///test
"""

import asyncio
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

from sqlalchemy import Numeric, String, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from game_operator.ledger import AsyncSqlLedger, TableAccounts
from game_operator.models.webhooks import WithdrawCall


class Base(DeclarativeBase):
    """What the operator has mapped."""


class Player(Base):
    """The operator's table, which is there already."""

    __tablename__ = "players"
    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    balance: Mapped[Decimal] = mapped_column(Numeric(14, 2))


class Visit(Base):
    """Another row of the operator's."""

    __tablename__ = "visits"
    id: Mapped[int] = mapped_column(primary_key=True)
    player_id: Mapped[str] = mapped_column(String(40))


call = WithdrawCall(player_id="player-1", bet_id="bet-1", amount_cents=250)
players = TableAccounts(table="players", key="id", balance="balance", unit="units")


async def main(url: str) -> None:
    driver_url = url.replace("sqlite://", "sqlite+aiosqlite://").replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(driver_url)
    sessions = async_sessionmaker(engine)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with sessions.begin() as session:
        session.add(Player(id="player-1", balance=Decimal("10.00")))
        session.add(Visit(id=1, player_id="player-1"))

    async with AsyncSqlLedger(url, accounts=players) as ledger:

        async def place_bet(visit_id: int) -> None:
            async with sessions.begin() as session:
                outcome = await ledger.apply(call, connection=session)
                session.add(Visit(id=visit_id, player_id=call.player_id))
                await session.flush()  # The second statement. If it fails, so does the bet.
                print("applied" if outcome.applied else "known", outcome.reply().balance)

        async def show() -> None:
            async with sessions() as session:
                balance = await session.scalar(select(Player.balance))
                visits = await session.scalar(select(func.count()).select_from(Visit))
                print("balance", balance, "visits", visits, "bet", await ledger.bet("bet-1") is not None)

        try:
            await place_bet(visit_id=1)  # There is a visit 1 already.
        except IntegrityError as failed:
            print(type(failed).__name__)
        await show()
        await place_bet(visit_id=2)
        await place_bet(visit_id=3)  # The service repeats its call: no second debit.
        await show()
    await engine.dispose()


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder, 'casino.db')}"))

# Prints:
# IntegrityError
# balance 10.00 visits 1 bet False
# applied 7.50
# known 7.50
# balance 7.50 visits 3 bet True
