"""
A bet and the operator's own rows in one transaction of Django's ORM: together, or not at all.

It needs the package django. It runs on SQLite. With the address of an empty database it runs on PostgreSQL:
python own_transaction_django.py "postgresql:///test?host=/run/postgresql&user=casino"
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import django
from django.conf import settings

folder = tempfile.TemporaryDirectory()
url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder.name, 'casino.db')}"
database: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///")}
if url.startswith("postgresql"):
    parts = urlsplit(url)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "HOST": parts.hostname or "",
        "PORT": parts.port or "",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "OPTIONS": dict(parse_qsl(parts.query)),
    }
settings.configure(DATABASES={"default": database})
django.setup()

from django.db import IntegrityError, connection, models, transaction  # noqa: E402 - Django needs its settings first

from game_operator import MovingCall, WithdrawCall  # noqa: E402
from game_operator.ledger import Outcome, TableAccounts  # noqa: E402
from game_operator.ledger.django import DjangoLedger  # noqa: E402
from game_operator.wallet import JoinedWallet  # noqa: E402


class Player(models.Model):  # type: ignore[misc]  # Django has no types.
    """The operator's existing table."""

    id = models.CharField(max_length=40, primary_key=True)
    balance = models.DecimalField(max_digits=14, decimal_places=2)

    class Meta:  # noqa: D106 - Django's
        app_label = "casino"
        db_table = "players"


class Visit(models.Model):  # type: ignore[misc]
    """Another row of the operator's."""

    player = models.ForeignKey(Player, models.CASCADE)

    class Meta:  # noqa: D106 - Django's
        app_label = "casino"
        db_table = "visits"


with connection.schema_editor() as editor:
    editor.create_model(Player)
    editor.create_model(Visit)
Player.objects.create(id="player-1", balance=Decimal("10.00"))
Visit.objects.create(id=1, player_id="player-1")

call = WithdrawCall(player_id="player-1", bet_id="bet-1", amount_cents=250)
players = TableAccounts(table="players", key="id", balance="balance", unit="units")

visit_ids = iter([1, 2, 3])


@contextmanager
def own_transaction() -> Iterator[Any]:
    """Commit on exit. durable refuses to run inside another transaction, which could be rolled back later."""
    with transaction.atomic(durable=True):
        yield connection


def add_visit(call: MovingCall, outcome: Outcome, _connection: Any) -> None:
    """Run in the transaction of the call: if this fails, the bet fails too."""
    Visit.objects.create(id=next(visit_ids), player_id=call.player_id)
    print("applied" if outcome.applied else "known")


with DjangoLedger("default", accounts=players) as ledger:  # It follows Django to the test database.
    wallet = JoinedWallet(ledger, own_transaction, add_visit)

    def show() -> None:
        balance = Player.objects.get(id="player-1").balance
        print("balance", balance, "visits", Visit.objects.count(), "bet", ledger.bet("bet-1") is not None)

    try:
        wallet.withdraw(call)  # There is a visit 1 already.
    except IntegrityError as failed:
        print(type(failed).__name__)
    show()
    wallet.withdraw(call)
    wallet.withdraw(call)  # The service repeats its call: no second debit.
    show()
connection.close()
folder.cleanup()

# Prints:
# IntegrityError
# balance 10.00 visits 1 bet False
# applied
# known
# balance 7.50 visits 3 bet True
