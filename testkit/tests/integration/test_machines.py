"""
Three wallets, a PostgreSQL primary and its synchronous standby, each on a machine of its own, in a network that fails.

A storm plays on another machine, from which each call goes to any of the wallets. Whatever happens to the network and
the machines, service and ledger agree at the end, and every SUCCESS is in the ledger that goes on.
"""

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.errors import RequestNotSentError
from game_operator_testkit.provider.delivery import Answer, Post, answer_to
from game_operator_testkit.provider.http import HttpCarrier
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.sandbox.dealing.dealer import Dealer
from game_operator_testkit.sandbox.storm.players import LedgerBooks
from game_operator_testkit.sandbox.storm.report import StormReport
from game_operator_testkit.sandbox.storm.storm import OnProgress, Storm
from testkit.tests.sandbox.storming import head_of
from tests.support.books import PREFIX, execute, problems, read_books
from tests.support.namespaces import Link, Machine, Network, why_no_namespaces
from tests.support.postgres import PostgresServer
from tests.support.replication import promote, replicated
from tests.support.wallet_process import WalletProcess

pytestmark = [pytest.mark.torture, pytest.mark.outside]

Figures = Callable[[str, object], None]

WALLETS = ("wallet1", "wallet2", "wallet3")
DATABASES = ("db1", "db2")
#: How long each disturbance lasts. It is longer than a wallet's patience.
CUT_SECONDS = 10.0
PATIENCE_SECONDS = 60.0
#: Before each call, so that a storm lasts as long on a fast machine.
PAUSE_SECONDS = 0.1


class Heard(NamedTuple):
    """What a wallet answered to the provider, and when; *code* is "" for SUCCESS and None if nothing came."""

    at: float
    wallet: str
    code: str | None


@dataclass(eq=False)
class Provider(Storm):
    """A storm whose calls go to the wallet with the fewest calls under way, as a load balancer's do."""

    wallets: Sequence[tuple[str, str]] = field(kw_only=True)
    heard: list[Heard] = field(default_factory=list, init=False)
    #: Operation and transaction of each genuine call that was answered SUCCESS.
    succeeded: set[tuple[str, str | None]] = field(default_factory=set, init=False)

    async def _carry(self, dealer: Dealer, on_progress: OnProgress | None) -> None:
        random = Random(self.head.seed)
        under_way = dict.fromkeys((name for name, _ in self.wallets), 0)
        async with AsyncExitStack() as stack:
            carriers = {}
            for name, url in self.wallets:
                carrier = HttpCarrier(url, self.keys, timeout=self.timeout, allow_insecure_http=True)
                carriers[name] = await stack.enter_async_context(aclosing(carrier))

            async def post(post: Post) -> Answer:
                await asyncio.sleep(PAUSE_SECONDS)
                while True:
                    name = min(carriers, key=lambda name: (under_way[name], random.random()))
                    under_way[name] += 1
                    try:
                        answer = answer_to(post, await carriers[name].carry_post(post))
                    except RequestNotSentError:
                        await asyncio.sleep(0.05)
                        continue
                    finally:
                        under_way[name] -= 1
                    self._hear(name, post, answer)
                    return answer

            await self._play(dealer, post, on_progress)

    def _hear(self, name: str, post: Post, answer: Answer) -> None:
        if not post.is_genuine or post.manner is not None:
            return
        code = None if answer.reply is None else answer.code or ""
        self.heard.append(Heard(time.monotonic(), name, code))
        if code == "":
            self.succeeded.add((post.call.operation, post.call.tx_id))

    def successes(self, since: float, until: float = float("inf"), wallet: str | None = None) -> list[float]:
        """Return when calls were answered SUCCESS, by *wallet* or by any."""
        heard = [each.at for each in list(self.heard) if each.code == "" and wallet in (None, each.wallet)]
        return [at for at in heard if since <= at < until]


@dataclass(eq=False)
class Site:
    """All machines, with a storm that plays while the ``playing`` block runs."""

    network: Network
    primary: PostgresServer
    standby: PostgresServer
    wallets: dict[str, WalletProcess]
    provider: Provider
    notes: list[str] = field(default_factory=list)
    report: StormReport | None = None
    #: The server whose books count at the end.
    last: PostgresServer = field(init=False)

    def __post_init__(self) -> None:
        self.last = self.primary

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Play the storm beside the block, to its end."""
        failures: list[BaseException] = []

        def play() -> None:
            try:
                with self.network.machines["provider"].entered():
                    self.report = self.provider.run()
            except BaseException as failed:  # Of whatever kind: it is raised below.
                failures.append(failed)

        thread = threading.Thread(target=play)
        thread.start()
        try:
            yield
        finally:
            self.network.heal()
            thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "the storm does not end"
        for failure in failures:
            raise failure

    def seconds_to_success(self, count: int = 1, wallet: str | None = None) -> float:
        """Wait until *count* calls were answered SUCCESS from now on; return how long the first one took."""
        began = time.monotonic()
        while len(found := self.provider.successes(began, wallet=wallet)) < count:
            assert time.monotonic() < began + PATIENCE_SECONDS, self.provider.heard[-20:]
            assert self.report is None, "the storm is over too soon"
            time.sleep(0.02)
        return found[0] - began

    def wait(self, seconds: float) -> tuple[float, float]:
        """Let the storm play; return when that began, and when it ended."""
        began = time.monotonic()
        time.sleep(seconds)
        return began, time.monotonic()

    def note(self, text: str) -> None:
        """Add a figure."""
        self.notes.append(text)


@contextmanager
def built(key: RSAPrivateKey, folder: Path, *, bets: int) -> Iterator[Site]:
    """Build all machines, with wallets that serve; the storm has not begun."""
    with ExitStack() as stack:
        network = stack.enter_context(Network("provider", *WALLETS, *DATABASES))
        machines = network.machines
        primary, standby = stack.enter_context(replicated(*(machines[name] for name in DATABASES)))
        hosts = ",".join(machines[name].address for name in DATABASES)
        address = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
        wallets = {
            name: WalletProcess(address, key, folder, host=machines[name].address, name=name, environment=os.environ)
            for name in WALLETS
        }
        for name, wallet in wallets.items():
            start(machines[name], wallet)
            stack.callback(wallet.kill_if_running)
        urls = [(name, f"http://{machines[name].address}:{wallet.port}") for name, wallet in wallets.items()]
        head = head_of(bets=bets, players=30, faults="all", retries="exponential")
        books = LedgerBooks(primary.url)
        provider = Provider(urls[0][1], ServiceKeys(key), books, head, patience=PATIENCE_SECONDS, wallets=urls)
        provider.courier = no_courier  # The wallets cannot be asked from this machine.
        yield Site(network, primary, standby, wallets, provider)


async def no_courier(_post: Post) -> Answer:
    raise NotImplementedError


def start(machine: Machine, wallet: WalletProcess) -> None:
    """Start *wallet* on *machine*."""
    with machine.entered():
        wallet.start()


# --- what happens -----------------------------------------------------------------------------------------------------


def slow_and_lossy(site: Site) -> None:
    """50 ms, 20 ms more or less, and two packets of a hundred lost, on each way."""
    site.network.set_links(Link(delay_seconds=0.05, jitter_seconds=0.02, loss=0.02))
    began, ended = site.wait(25)
    site.note(f"{len(site.provider.successes(began, ended)) / 25:.1f} SUCCESS a second")
    site.note(f"packets {dict(site.network.set_links(Link()))}")


def wallet_cut_from_databases(site: Site) -> None:
    """The others go on; the one that was cut goes on when it is healed."""
    site.network.cut("wallet1", among=DATABASES)
    began, ended = site.wait(CUT_SECONDS)
    others = sum(len(site.provider.successes(began, ended, wallet)) for wallet in WALLETS[1:])
    assert others, "the other wallets did not go on"
    assert not site.provider.successes(began + 1, ended, "wallet1")
    site.network.heal()
    site.note(f"{others} SUCCESS of the others meanwhile")
    site.note(f"the wallet that was cut: SUCCESS {site.seconds_to_success(wallet='wallet1'):.1f} s after the healing")


def primary_cut_from_standby(site: Site) -> None:
    """No commit is confirmed, so nothing is answered SUCCESS until it is healed."""
    site.network.cut("db1", among=["db2"])
    began, ended = site.wait(CUT_SECONDS)
    assert not site.provider.successes(began + 1, ended)
    site.network.heal()
    site.note(f"SUCCESS {site.seconds_to_success():.1f} s after the healing")


def failover(site: Site) -> None:
    """The standby is promoted, the wallets follow, and the former primary comes back and is not written to."""
    stored = failed_over(site)
    # Each wallet connects again, and meets the former primary first.
    execute(site.standby.url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_addr IS NOT NULL")
    site.note(f"SUCCESS {site.seconds_to_success(20):.1f} s after all wallets had met the former primary")
    site.wait(2)
    assert stored_in(site.primary) == stored
    site.primary.stop(immediate=True)
    site.note(f"{site.seconds_to_success(20):.1f} s after the former primary was stopped")


def wallet_started_beside_former_primary(site: Site) -> None:
    """It knows no timeline, so it takes the former primary for the database: no commit is confirmed there."""
    failed_over(site)
    site.wallets["wallet3"].kill()
    start(site.network.machines["wallet3"], site.wallets["wallet3"])
    began, ended = site.wait(CUT_SECONDS)
    assert not site.provider.successes(began, ended, "wallet3")
    site.note(f"{len(site.provider.successes(began, ended))} SUCCESS of the others meanwhile")
    site.primary.stop(immediate=True)
    took = site.seconds_to_success(wallet="wallet3")
    site.note(f"the wallet that was started: SUCCESS {took:.1f} s after the former primary was stopped")


def failed_over(site: Site) -> list[tuple[int, ...]]:
    """Fail over, and let the former primary come back; return what it stores."""
    site.network.cut("db1")
    site.wait(1)
    promote(site.standby)
    site.last = site.standby
    site.provider.books = LedgerBooks(site.standby.url)
    site.note(f"SUCCESS {site.seconds_to_success(20):.1f} s after the promotion")
    site.wait(CUT_SECONDS)
    stored = stored_in(site.primary)
    site.network.heal()
    site.wait(1)
    return stored


def wallet_killed(site: Site) -> None:
    """A wallet is killed, and started again while the others serve."""
    site.wallets["wallet2"].kill()
    began, ended = site.wait(3)
    site.note(f"{len(site.provider.successes(began, ended))} SUCCESS of the others meanwhile")
    start(site.network.machines["wallet2"], site.wallets["wallet2"])
    site.note(f"the wallet that was killed: SUCCESS {site.seconds_to_success(wallet='wallet2'):.1f} s after its start")


def stored_in(server: PostgresServer) -> list[tuple[int, ...]]:
    """Return how many calls, bets and postings *server* has."""
    return [execute(server.url, f"SELECT count(*) FROM {PREFIX}{table}")[0] for table in ("calls", "bets", "postings")]


SCENARIOS = [
    pytest.param(slow_and_lossy, 600, id="slow and lossy"),
    pytest.param(wallet_cut_from_databases, 900, id="a wallet cut from the databases"),
    pytest.param(primary_cut_from_standby, 500, id="the primary cut from its standby"),
    pytest.param(failover, 1_500, id="a failover"),
    pytest.param(wallet_started_beside_former_primary, 1_800, id="a wallet started beside the former primary"),
    pytest.param(wallet_killed, 600, id="a wallet killed"),
]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("happens", "bets"), SCENARIOS)
def test_several_machines(
    happens: Callable[[Site], None], bets: int, private_key: RSAPrivateKey, tmp_path: Path, record_property: Figures
) -> None:
    """Nothing is lost or doubled, and every SUCCESS is in the ledger that goes on."""
    if reason := why_no_namespaces():
        pytest.skip(reason)
    began = time.monotonic()
    with built(private_key, tmp_path, bets=bets) as site:
        with site.playing():
            site.seconds_to_success(100)
            happens(site)
        report = site.report
        assert report is not None
        assert report.passed, str(report)
        books = read_books(site.last.url)
        assert problems(books) == []
        kept = {identity for identity, call in books.calls.items() if call.code is None}
        assert site.provider.succeeded - kept == set()
        for wallet in site.wallets.values():
            wallet.stop()
        codes = Counter("no answer" if each.code is None else each.code or "SUCCESS" for each in site.provider.heard)
        record_property(
            "figures",
            f"{report.bets} bets and {report.claims} claims, {report.posts} calls in {report.seconds:.0f} s, "
            f"{dict(codes)}, {'; '.join(site.notes)}; {time.monotonic() - began:.0f} s in all",
        )
