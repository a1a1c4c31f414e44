"""
A bet and the operator's own rows in one SQLAlchemy transaction of asyncio: together, or not at all.

It needs the packages sqlalchemy[asyncio] and aiosqlite. With the address of an empty database it
runs on PostgreSQL, and needs asyncpg:
python own_transaction_sqlalchemy_async.py postgresql:///test
"""

import asyncio
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

from sqlalchemy import Numeric, String, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from game_operator import MovingCall, WithdrawCall
from game_operator.ledger import AsyncSqlLedger, Outcome, TableAccounts
from game_operator.wallet import AsyncJoinedWallet


class Base(DeclarativeBase):
    """The operator's mapped classes."""


class Player(Base):
    """The operator's existing table."""

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


visit_ids = iter([1, 2, 3])


async def add_visit(call: MovingCall, outcome: Outcome, session: AsyncSession) -> None:
    """Run in the transaction of the call: if this fails, the bet fails too."""
    session.add(Visit(id=next(visit_ids), player_id=call.player_id))
    await session.flush()
    print("applied" if outcome.applied else "known")


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
        wallet = AsyncJoinedWallet(ledger, sessions.begin, add_visit)

        async def show() -> None:
            async with sessions() as session:
                balance = await session.scalar(select(Player.balance))
                visits = await session.scalar(select(func.count()).select_from(Visit))
                print("balance", balance, "visits", visits, "bet", await ledger.bet("bet-1") is not None)

        try:
            await wallet.withdraw(call)  # There is a visit 1 already.
        except IntegrityError as failed:
            print(type(failed).__name__)
        await show()
        await wallet.withdraw(call)
        await wallet.withdraw(call)  # The service repeats its call: no second debit.
        await show()
    await engine.dispose()


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder, 'casino.db')}"))

# Prints:
# IntegrityError
# balance 10.00 visits 1 bet False
# applied
# known
# balance 7.50 visits 3 bet True
