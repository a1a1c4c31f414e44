"""A service and a wallet in one process, whose settlements are lost, held and misreported; and reconcilers between."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import httpx

from game_operator import OperatorClient
from game_operator.backoffice.reconcile.reconciler import Reconciler
from game_operator.backoffice.reconcile.report import ReconcileReport
from game_operator.errors import ConfigurationError
from game_operator.ledger import SqlLedger, TableAccounts
from game_operator.ledger.staff.findings import Finding
from game_operator.models.webhooks import DepositCall
from game_operator.wallet import JoinedWallet, Wallet
from game_operator.webhooks import RsaSignature, WebhookReceiver, wsgi_app
from game_operator_testkit.provider.keys import ThrowAwayKeys
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.in_process import InProcessSandbox
from tests.support.callers import Kind, Statements
from tests.support.joined_wallets import asked
from tests.support.raw_sql import rows, run
from tests.support.servers import wsgi_server

KEYS = ThrowAwayKeys()
OPENING = 100_000
WAGER, WON = 500, 1_250
#: What repairing needs.
REPAIR: dict[str, Any] = {
    "repair": True,
    "max_bets": 1_000,
    "max_total_cents": 10_000_000,
    "actor": "ann",
    "reason": "deposits were lost",
}


class TickingClock:
    """A clock that goes on by itself each time it is asked, so that nobody waits for real."""

    def __init__(self, *, tick_millis: int = 0, ahead: timedelta = timedelta(0)) -> None:
        self.now_millis = time.time_ns() // 1_000_000 + round(ahead / timedelta(milliseconds=1))
        self.tick_millis = tick_millis

    def __call__(self) -> int:
        self.now_millis += self.tick_millis
        return self.now_millis

    def passes(self, time: timedelta) -> None:
        """Let some time pass."""
        self.now_millis += round(time / timedelta(milliseconds=1))


class Refusing(httpx.BaseTransport):
    """The way to the service, which answers what a test says in place of the next calls."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self.inner = inner
        #: Given in place of the service's answers, the first first; an error is raised.
        self.instead: list[httpx.Response | Exception] = []
        #: Called with each endpoint before it is asked.
        self.before: Callable[[str], object] = lambda _endpoint: None
        #: The endpoints that were asked, such as ``fetch-bet``.
        self.asked: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        endpoint = request.url.path.split("/")[3]
        self.asked.append(endpoint)
        self.before(endpoint)
        if not self.instead:
            return self.inner.handle_request(request)
        answer = self.instead.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def at(self, endpoint: str, number: int, act: Callable[[], object]) -> None:
        """Call *act* before *endpoint* is asked for the time of that number from now on, and never otherwise."""
        due = self.asked.count(endpoint) + number
        self.before = lambda asked: act() if asked == endpoint and self.asked.count(endpoint) == due else None

    def fail(self, status: int, times: int, body: bytes = b'{"error": "no"}', retry_after: str = "") -> None:
        """Answer the next *times* calls with an error."""
        headers = {"Retry-After": retry_after} if retry_after else {}
        self.instead += [httpx.Response(status, content=body, headers=headers) for _ in range(times)]


#: ``open`` yields a wallet, with a table ``own_rows`` for the operator.
WalletKind: TypeAlias = Kind[Wallet | JoinedWallet]


def _keep(does: Statements, call: Any, outcome: Any, connection: Any) -> Generator[Any, Any, None]:
    if outcome.applied and call.operation != "withdraw":
        yield does.execute(connection, f"INSERT INTO own_rows VALUES ('{call.operation}', '{call.bet_id or ''}')")


@contextmanager
def _opened_kind(name: str, url: str, *, own: bool = False, **options: Any) -> Iterator[Wallet | JoinedWallet]:
    if own:
        run(url, "CREATE TABLE players (id varchar(256) PRIMARY KEY, cents bigint NOT NULL)")
        options["accounts"] = TableAccounts(table="players", key="id", balance="cents", unit="cents")
    with next(kind for kind in asked(name) if kind.name == name).open(url, **options) as opened:
        yield opened.wallet(_keep)


WALLETS = [
    WalletKind("wallet, sqlite", "sqlite", partial(_opened_kind, "own, sqlite")),
    WalletKind("wallet, postgres", "postgres", partial(_opened_kind, "own, postgres")),
    WalletKind("own table, sqlite", "sqlite", partial(_opened_kind, "own, sqlite", own=True)),
    WalletKind("own table, postgres", "postgres", partial(_opened_kind, "own, postgres", own=True)),
    WalletKind("joined, sqlite3", "sqlite", partial(_opened_kind, "sqlite3")),
    WalletKind("joined, psycopg", "postgres", partial(_opened_kind, "psycopg")),
    WalletKind("joined, sqlalchemy", "postgres", partial(_opened_kind, "sqlalchemy connection, psycopg")),
]


class Desk:
    """
    What a test of the reconciler has on its desk.

    Attributes:
        url: The database.
        sandbox: The service.
        wallet, ledger: The wallet that it calls, and its ledger; the players p1 to p4 have 1,000.00 each.
        way: The way from the client to the service.
        client: A client.
    """

    def __init__(self, url: str, wallet: Wallet | JoinedWallet, sandbox: InProcessSandbox, stack: ExitStack) -> None:
        self.url, self.wallet, self.sandbox = url, wallet, sandbox
        ledger = wallet.ledger
        assert isinstance(ledger, SqlLedger)
        self.ledger = ledger
        self.is_own = not _opened(url, ledger)
        run(url, "CREATE TABLE own_rows (operation varchar(20), bet_id varchar(256))")
        sandbox.wallet = wallet
        self.way = Refusing(sandbox.transport)
        http_client = stack.enter_context(httpx.Client(transport=self.way))
        self.client: OperatorClient = stack.enter_context(sandbox.client(http_client=http_client, retries=0))

    def reconciler(self, **options: Any) -> Reconciler:
        """Return a reconciler of all bets that waits for nothing, with *options*."""
        quick: dict[str, Any] = {
            "min_age": timedelta(0),
            "second_look": timedelta(0),
            "rate_per_second": 10_000.0,
            "sample": 1.0,
        }
        wallet = options.pop("wallet", self.wallet)
        # An account's times are a millisecond apart at least: those of fast calls are ahead of the clock.
        time.sleep(0.005)
        return Reconciler(options.pop("client", self.client), wallet, **(quick | options))

    def play(self, settlement: Any = "send", **round_: Any) -> str:
        """Play a round of one bet of p1 and return the bet's id: 5.00 on it, and 12.50 are won."""
        values: dict[str, Any] = {"player_id": "p1", "wager_cents": WAGER, "won_cents": WON}
        if round_.get("cancel"):
            del values["won_cents"]
        played = self.sandbox.play_round(settlement=settlement, **(values | round_))
        return str(played.bet_ids[0])

    def state(self, bet_id: str) -> str | None:
        """Return the ledger's state of a bet."""
        bet = self.ledger.bet(bet_id)
        return None if bet is None else bet.state.value

    def balance(self, player_id: str = "p1") -> int:
        """Return a balance less what it was opened with."""
        return int(self.ledger.balance(player_id)) - OPENING

    def own_rows(self) -> Counter[tuple[str, str]]:
        """Return what the operator's own statements have written of settlements."""
        return Counter((row[0], row[1]) for row in rows(self.url, "SELECT operation, bet_id FROM own_rows"))

    def deposit(self, bet_id: str, cents: int = WON, **more: Any) -> Any:
        """Let a deposit come that the service did not send."""
        return self.wallet.deposit(DepositCall(player_id="p1", bet_id=bet_id, amount_cents=cents, **more))

    def findings(self, *, resolved: bool = False) -> list[Finding]:
        """Return the findings."""
        return list(self.reconciler().findings(resolved=resolved))

    def kinds(self) -> dict[str, str]:
        """Return the open findings' kinds by their bets."""
        return {each.subject: each.kind for each in self.findings()}

    def check(self) -> None:
        """Assert that the books are right."""
        assert self.ledger.verify().findings == ()


def _opened(url: str, ledger: SqlLedger) -> bool:
    """Open the players' accounts; return whether they are the ledger's own."""
    players = ["p1", "p2", "p3", "p4"]
    try:
        for player_id in players:
            ledger.open_account(player_id, Decimal(OPENING) / 100)
    except ConfigurationError:
        for player_id in players:
            run(url, "INSERT INTO players VALUES (?, ?)", player_id, OPENING)
        return False
    return True


@contextmanager
def desk_of(kind: WalletKind, url: str, **options: Any) -> Iterator[Desk]:
    """Return a desk with a wallet of a kind, whose ledger has *options*."""
    with ExitStack() as stack:
        sandbox = stack.enter_context(InProcessSandbox(keys=KEYS))
        wallet = stack.enter_context(kind.open(url, **options))
        yield Desk(url, wallet, sandbox, stack)


def verdicts(report: ReconcileReport) -> dict[str, str]:
    """Return the verdict of each bet of a run."""
    return {row["bet_id"]: row["verdict"] for row in report.rows()}


@contextmanager
def called_by(sandbox: Sandbox, wallet: Wallet) -> Iterator[None]:
    """Serve *wallet* over HTTP, and let *sandbox* call it."""
    receiver = WebhookReceiver(authenticator=RsaSignature(sandbox.service_public_key_pem))
    with wsgi_server(wsgi_app(receiver, wallet)) as port:
        sandbox.wallet_url = f"http://127.0.0.1:{port}"
        yield
