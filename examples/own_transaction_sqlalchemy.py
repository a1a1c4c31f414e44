"""
A bet and the operator's own rows in one SQLAlchemy transaction: together, or not at all.

It needs the package sqlalchemy. It runs on SQLite; with an address it runs on PostgreSQL:
python own_transaction_sqlalchemy.py postgresql:///test
"""

import sys
import tempfile
from decimal import Decimal
from pathlib import Path

from sqlalchemy import Numeric, String, create_engine, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from game_operator.ledger import SqlLedger, TableAccounts
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


folder = tempfile.TemporaryDirectory()
url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder.name, 'casino.db')}"
engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
Base.metadata.create_all(engine)
with Session(engine) as session, session.begin():
    session.add(Player(id="player-1", balance=Decimal("10.00")))

call = WithdrawCall(player_id="player-1", bet_id="bet-1", amount_cents=250)
players = TableAccounts(table="players", key="id", balance="balance", unit="units")

with SqlLedger(url, accounts=players) as ledger:

    def place_bet(visit_id: int) -> None:
        with Session(engine) as session, session.begin():
            outcome = ledger.apply(call, connection=session)
            session.add(Visit(id=visit_id, player_id=call.player_id))
            session.flush()  # The second statement. If it fails, so does the bet.
            print("applied" if outcome.applied else "known", outcome.reply().balance)

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

    with Session(engine) as session, session.begin():
        session.add(Visit(id=1, player_id="player-1"))
    try:
        place_bet(visit_id=1)  # There is a visit 1 already.
    except IntegrityError as failed:
        print(type(failed).__name__)
    show()
    place_bet(visit_id=2)
    place_bet(visit_id=3)  # The service repeats its call: no second debit.
    show()
engine.dispose()
folder.cleanup()

# Prints:
# IntegrityError
# balance 10.00 visits 1 bet False
# applied 7.50
# known 7.50
# balance 7.50 visits 3 bet True
