"""
A bet and the operator's own rows in one SQLAlchemy transaction: together, or not at all.

It needs the package sqlalchemy. It runs on SQLite. With the address of an empty database it runs on PostgreSQL:
python own_transaction_sqlalchemy.py postgresql:///test
"""

import sys
import tempfile
from decimal import Decimal
from pathlib import Path

from sqlalchemy import Numeric, String, create_engine, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from game_operator import MovingCall, WithdrawCall
from game_operator.ledger import Outcome, SqlLedger, TableAccounts
from game_operator.wallet import JoinedWallet


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


folder = tempfile.TemporaryDirectory()
url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder.name, 'casino.db')}"
engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
sessions = sessionmaker(engine)
Base.metadata.create_all(engine)
with sessions.begin() as session:
    session.add(Player(id="player-1", balance=Decimal("10.00")))
    session.add(Visit(id=1, player_id="player-1"))

call = WithdrawCall(player_id="player-1", bet_id="bet-1", amount_cents=250)
players = TableAccounts(table="players", key="id", balance="balance", unit="units")

visit_ids = iter([1, 2, 3])


def add_visit(call: MovingCall, outcome: Outcome, session: Session) -> None:
    """Run in the transaction of the call: if this fails, the bet fails too."""
    session.add(Visit(id=next(visit_ids), player_id=call.player_id))
    session.flush()
    print("applied" if outcome.applied else "known")


with SqlLedger(url, accounts=players) as ledger:
    wallet = JoinedWallet(ledger, sessions.begin, add_visit)  # sessions.begin commits; sessions alone would not.

    def show() -> None:
        with Session(engine) as session:
            balance = session.scalars(select(Player.balance)).one()
            print(
                "balance",
                balance,
                "visits",
                len(session.scalars(select(Visit)).all()),
                "bet",
                ledger.bet("bet-1") is not None,
            )

    try:
        wallet.withdraw(call)  # There is a visit 1 already.
    except IntegrityError as failed:
        print(type(failed).__name__)
    show()
    wallet.withdraw(call)
    wallet.withdraw(call)  # The service repeats its call: no second debit.
    show()
engine.dispose()
folder.cleanup()

# Prints:
# IntegrityError
# balance 10.00 visits 1 bet False
# applied
# known
# balance 7.50 visits 3 bet True
