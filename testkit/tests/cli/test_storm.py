"""`game-operator storm`: against the real wallet on both databases, against wrong ones, and against none at all."""

import json
import re
import shlex
import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.cli.files import write_privately
from game_operator.ledger import SqlLedger
from game_operator_testkit.provider.faults import FAULTS
from game_operator_testkit.provider.keys import private_pem as pem_of
from game_operator_testkit.sandbox.dealing.deliveries import RETRY_PRESETS
from game_operator_testkit.sandbox.storm.storm import Storm
from testkit.tests.sandbox.wrong_wallets import PaysRepeatsTwice, RightWallet, TellsWhatWasBefore
from tests.support.command_line import COMMAND, Forked, Run, Told, clean_environment, mode_of
from tests.support.documents import ROOT
from tests.support.hostile_server import Connection, HostileServer, response_bytes
from tests.support.postgres import PostgresServer
from tests.support.served_wallets import Served
from tests.support.served_wallets import served as served_wallet
from tests.support.times import wait_until
from tests.support.wallet_process import WalletProcess

Figures = Callable[[str, object], None]
_PATIENCE_SECONDS = 280
_OF_STORMS = {str(fault.name) for fault in FAULTS if fault.side == "webhook" and not fault.is_lasting}


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'wallet.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, sqlite_url: str) -> str:
    """The URL of an empty database of each kind; commits reach the disk, or a storm would say that they do not."""
    if request.param == "sqlite":
        return sqlite_url
    durable: PostgresServer = request.getfixturevalue("durable")
    return durable.create_database()


@pytest.fixture
def wallet(database: str, private_key: RSAPrivateKey, tmp_path: Path) -> Iterator[WalletProcess]:
    """`game-operator serve` in a process of its own."""
    with WalletProcess(database, private_key, tmp_path) as wallet:
        yield wallet


def started(*args: object) -> Forked:
    """Start ``game-operator storm`` in a process of its own."""
    return Forked(["storm", *map(str, args)], environ={})


def ended(process: Forked, seconds: float = _PATIENCE_SECONDS) -> Told:
    """Return how a storm ended; it does not outlive its test."""
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return Told(process.wait(), out, err)


def _against(wallet: WalletProcess, key: Path, ledger: str, *args: object) -> tuple[object, ...]:
    return ("--url", f"http://127.0.0.1:{wallet.port}", "--service-private-key", key, "--database", ledger, *args)


# --- the real wallet --------------------------------------------------------------------------------------------------


def _agreed(wallet: WalletProcess, key: Path, database: str, *, bets: int, players: int, seconds: float) -> str:
    """Storm *wallet* with all faults, assert that every bet agrees, and return figures."""
    arguments = _against(wallet, key, database, "--players", players, "--bets", bets, "--faults", "all", "--json")
    told = ended(started(*arguments, "--seed", 9), seconds)  # By which each fault strikes, be the bets few.
    assert told.code == 0, told
    report = told.document
    assert (report["passed"], report["bets"], report["seed"]) == (True, bets, 9)
    assert report["differences"] == []
    assert report["faults"].keys() == _OF_STORMS
    assert sum(report["states"].values()) == report["bets"] + report["claims"]
    assert report["trace"] is None
    with closing(SqlLedger(database)) as ledger:
        kept = ledger.bets()
        assert sum(bet.state == "CLOSED" for bet in kept) == report["states"]["CLOSED"]
        assert ledger.verify().sound
    assert "Traceback" not in wallet.log()
    return (
        f"{database.partition(':')[0]}: {bets} bets and {report['claims']} claims, {report['calls']} calls in "
        f"{report['seconds']:.1f} s, {report['latency_ms']}, faults {report['faults']}"
    )


def after_notice(err: str) -> str:
    """Return *err* without the line on the source that the first storm on a ledger registers."""
    return re.sub(r"\AThe ledger has no source yet, .*\n", "", err)


@pytest.mark.timeout(300)
@pytest.mark.drawn(1)
def test_two_hundred_bets_with_all_faults(wallet: WalletProcess, key_file: Path, database: str) -> None:
    """Every bet of 200 agrees, on either database, whatever goes wrong on the way."""
    _agreed(wallet, key_file, database, bets=200, players=20, seconds=_PATIENCE_SECONDS)


@pytest.mark.torture
@pytest.mark.timeout(2400)
def test_a_hundred_thousand_bets_with_all_faults(
    wallet: WalletProcess, key_file: Path, database: str, record_property: Figures
) -> None:
    """Every bet of 100,000 agrees, on both databases, whatever goes wrong on the way."""
    record_property("figures", _agreed(wallet, key_file, database, bets=100_000, players=1_000, seconds=2_350))


@pytest.mark.outside
@pytest.mark.timeout(300)
@pytest.mark.parametrize("retries", ["cancel", "three", "ten", "exponential"])
@pytest.mark.drawn(1)
def test_a_wallet_that_is_killed_in_mid_storm(
    retries: str, sqlite_url: str, private_key: RSAPrivateKey, key_file: Path, tmp_path: Path
) -> None:
    """H05: killed twice and started again, by each way of repeating: nothing lost, nothing doubled."""
    with WalletProcess(sqlite_url, private_key, tmp_path) as wallet:
        arguments = _against(wallet, key_file, sqlite_url, "--players", 20, "--bets", 120, "--retries", retries)
        storm = started(*arguments, "--seed", 3, "--faults", "all", "--json")
        for bets in (25, 60):
            while storm.poll() is None and _count_of("bets", tmp_path / "wallet.db") < bets:
                time.sleep(0.005)
            wallet.kill()
            wallet.start()
        assert storm.poll() is None, "the storm was over before the wallet was killed"
        told = ended(storm)
    report = told.document
    assert (told.code, report["passed"], report["differences"]) == (0, True, []), told
    assert report["bets"] == 120


def _count_of(table: str, file: Path) -> int:
    with closing(sqlite3.connect(file, timeout=60)) as database:
        count: int = database.execute(f"SELECT count(*) FROM game_operator_{table}").fetchone()[0]
    return count


# --- wallets in this process ------------------------------------------------------------------------------------------


#: Serves a wallet in which a storm opens its own players.
served = partial(served_wallet, players=())


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder: that is where traces go."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def storm(run: Run, own_folder: Path, key_file: Path) -> Run:
    """Storms the wallet at a URL, with these options."""
    return partial(run, "storm", "--service-private-key", key_file, "--url")


_SMALL = ("--bets", 30, "--players", 6, "--seed", 5, "--concurrency", 4)
#: Storms a wallet in this process, audited by its ledger: returns how that ended, and the wallet.
Stormed = Callable[..., tuple[Told, Served]]


@pytest.fixture
def stormed(storm: Run, own_folder: Path, private_key: RSAPrivateKey) -> Stormed:
    """Plays a small storm; on the same ledger again if it is called again."""

    def stormed(*options: object, wallet: type[RightWallet] = RightWallet) -> tuple[Told, Served]:
        with served(own_folder.parent, private_key, wallet) as app:
            return storm(app.url, "--database", app.database, *_SMALL, *options), app

    return stormed


@pytest.mark.outside
def test_what_people_are_told(stormed: Stormed, own_folder: Path) -> None:
    """
    Figures and the verdict; no progress where there is no terminal.

    The same seed again on the same ledger: each storm has players and bets of its own.
    """
    told, _ = stormed()
    again, _ = stormed()
    assert (told.code, again.code) == (0, 0), again
    # What it registers permanently is said where a pipeline logs it, too.
    assert told.err.startswith(
        "The ledger has no source yet, and this storm registers the wallet's source permanently."
    )
    assert after_notice(told.err) == ""
    for name in ("seed", "bets", "ended", "refused", "calls", "throughput", "latency in ms", "faults", "repeats"):
        assert re.search(rf"^{name} +\S", told.out, re.MULTILINE), name
    assert told.out.endswith("Service and wallet agree on all 30 bets and 1 claim.\n")
    assert list(own_folder.glob("*.trace")) == []


@pytest.mark.outside
@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.drawn(1)
def test_a_wrong_wallet_is_reported(concurrency: int, stormed: Stormed, own_folder: Path) -> None:
    """Exit code 1, each difference, a history, and a trace that has what arrived."""
    faults = ("--faults", "duplicate=0.5,reply-lost=0.2,forged=0.1")
    told, app = stormed(*faults, "--concurrency", concurrency, "--html", "storm.html", wallet=PaysRepeatsTwice)
    assert told.code == 1
    assert "Service and wallet differ: " in (own_folder / "storm.html").read_text()
    assert mode_of(own_folder / "storm.html") == 0o600
    assert re.search(r"^\d+ differences between service and wallet:$", told.out, re.MULTILINE)
    assert re.search(
        r"^  player storm-\S+: .*; [\d.]+ too much; faults: .*(duplicate|reply-lost)", told.out, re.MULTILINE
    )
    assert re.search(r"^What was sent and answered, of player storm-\w+-\d+:$", told.out, re.MULTILINE)
    assert re.search(r"^  #\d+ deposit, delivery \d+.*: SUCCESS, balance [\d.]+$", told.out, re.MULTILINE)
    assert re.search(r'^      POST /deposit \{"player_id":', told.out, re.MULTILINE)
    assert "`game-operator certify` finds the cause: it tries each case by itself" in told.out
    assert re.search(r"^Service and wallet differ: \d+ differences in 30 bets\.\n\Z", told.out, re.MULTILINE)
    trace = own_folder / "storm-5.trace"
    assert "The trace is in storm-5.trace" in told.out
    assert mode_of(trace) == 0o600
    assert "BEGIN" not in trace.read_text()
    lines = [json.loads(line) for line in trace.read_text().splitlines()[1:]]
    sent = [post for post in lines if "request-lost" not in post["faults"]]
    assert Counter(body.decode() for body in app.arrived) == Counter(post["body"] for post in sent)


@pytest.mark.outside
def test_players_who_hold_money(storm: Run, own_folder: Path, private_key: RSAPrivateKey) -> None:
    """By replies and balances alone: a right wallet passes, a wrong one does not, and its document says so."""
    file = own_folder / "players.txt"
    file.write_text("# ours\nann\n\nbob\ncéline\n")
    for wallet, code in ((RightWallet, 0), (TellsWhatWasBefore, 1)):
        with served(own_folder, private_key, wallet, name=f"{wallet.__name__}.db") as app:
            for player in ("ann", "bob", "céline"):
                app.ledger.open_account(player, Decimal("500.00"))
            # One call at a time: a balance told while others of its player are under way proves little.
            told = storm(app.url, "--players-file", file, *_SMALL, "--concurrency", 1, "--json")
        assert told.code == code
        document = told.document
        assert document["passed"] is (code == 0)
        assert (document["bets"], document["trace"]) == (30, "storm-5.trace" if code else None)
        assert bool(document["differences"]) is bool(code)
    first = document["differences"][0]
    assert first.keys() == {"subject", "service", "wallet", "gap_cents", "faults", "history"}
    assert first["history"]
    assert first["gap_cents"] != 0


@pytest.mark.outside
def test_ctrl_c(own_folder: Path, private_key: RSAPrivateKey, key_file: Path) -> None:
    """Ends it with 130 and a sentence."""
    with served(own_folder, private_key) as app:
        ledger = ("--database", app.database, "--bets", 100_000)
        process = started("--url", app.url, "--service-private-key", key_file, *ledger)
        wait_until(lambda: len(app.arrived) >= 20)
        process.send_signal(signal.SIGINT)
        told = ended(process, 60)
    assert told.code == 130
    assert "Traceback" not in told.err
    assert "Interrupted" in told.err


# --- what cannot be played --------------------------------------------------------------------------------------------


USAGE = [
    pytest.param({}, "There are no players: pass the wallet's ledger as --database", id="nobody plays"),
    pytest.param({"--database": "sqlite:///w.db", "--players-file": "p.txt"}, "exclude each other", id="both"),
    pytest.param({"--service-private-key": "public.pem"}, "public key", id="a public key"),
    pytest.param({"--url": "https://wallet.example"}, "--moves-money", id="another machine"),
    pytest.param({"--trace": "no/t"}, "--trace: there is no folder 'no'. Make it first.", id="no folder for the trace"),
    pytest.param({"--trace": "/proc/t"}, "can be written in the folder '/proc'", id="a folder that takes no file"),
    pytest.param({"--retries": "none"}, "Pass --retries cancel", id="retries that end"),
    pytest.param({"--currency": "XXX"}, "No game can be played in XXX", id="no game in that currency"),
    pytest.param({"--players-file": "empty.txt"}, "has no players", id="a players' file without players"),
    pytest.param({"--players-file": "twice.txt"}, "has a player twice", id="a player twice"),
    pytest.param({"--players-file": "latin.txt"}, "not UTF-8", id="another encoding"),
    pytest.param({"--players-file": "strangers.txt"}, "returns no balance of 2 players", id="unknown players"),
    pytest.param({"--database": "sqlite:///other.db"}, "Pass the ledger that this wallet serves", id="another ledger"),
    pytest.param({"--service-private-key": "other.pem"}, "rejects our signatures", id="another key"),
    pytest.param({"--concurrency": "101"}, "--concurrency", id="too many at once"),
    pytest.param({"--timeout": "0"}, "--timeout", id="no time"),
]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory, private_key: RSAPrivateKey) -> Iterator[Served]:
    """A wallet that nobody gets to play with."""
    with served(tmp_path_factory.mktemp("untouched"), private_key) as wallet:
        yield wallet


@pytest.mark.outside
@pytest.mark.parametrize(("changes", "sentence"), USAGE)
def test_what_cannot_be_played(
    changes: dict[str, str],
    sentence: str,
    run: Run,
    own_folder: Path,
    untouched: Served,
    key_file: Path,
    public_pem: bytes,
    other_key: RSAPrivateKey,
) -> None:
    """Exit code 2 and a sentence, before an account of the wallet is opened."""
    files = {"p": b"ann", "empty": b"\n# nobody\n", "twice": b"ann\nbob\nann\n", "strangers": b"xaver\nyvonne\n"}
    for name, content in (files | {"latin": "céline".encode("latin-1")}).items():
        (own_folder / f"{name}.txt").write_bytes(content)
    (own_folder / "public.pem").write_bytes(public_pem)
    write_privately(own_folder / "other.pem", pem_of(other_key), 0o600)
    SqlLedger("sqlite:///other.db").close()
    app = untouched
    options = {"--url": app.url, "--service-private-key": str(key_file)}
    if changes and changes.keys().isdisjoint({"--database", "--players-file"}):
        options["--database"] = app.database
    arguments = [part for option in (options | changes).items() for part in option]
    told = run("storm", *arguments, "--bets", 20)
    assert told.code == 2, told
    assert sentence in told.err
    assert told.out == ""
    assert app.arrived == []
    assert _count_of("accounts", Path(app.database.removeprefix("sqlite:///"))) == 0


@pytest.mark.outside
def test_a_wallet_that_is_not_there(storm: Run, nobody: str, sqlite_url: str, tmp_path: Path) -> None:
    """Exit code 3 at once, before a player is opened."""
    SqlLedger(sqlite_url).close()
    began = time.monotonic()
    told = storm(nobody, "--database", sqlite_url, "--json")
    assert time.monotonic() - began < 10
    assert (told.code, told.error["type"]) == (3, "RequestNotSentError")
    assert _count_of("accounts", tmp_path / "wallet.db") == 0


@pytest.mark.outside
@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.drawn(1)
def test_a_wallet_that_dies_leaves_what_to_look_for(
    concurrency: int, storm: Run, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 3, and: that money may have moved, how long it was waited for, a trace with the calls at the end."""
    defaults = Storm.__init__.__kwdefaults__
    assert defaults is not None
    assert "patience" in defaults
    monkeypatch.setitem(defaults, "patience", 0.5)
    (own_folder / "players.txt").write_text("ann\n")
    dead, cents = threading.Event(), 100_000

    def dies_of_a_deposit(connection: Connection) -> None:
        nonlocal cents
        while (request := connection.read_request()) and not dead.is_set():
            path, call = request.split()[1], json.loads(request.partition(b"\r\n\r\n")[2])
            if path == b"/deposit":
                dead.set()
                server.accept_no_more()
                break
            cents += {b"/withdraw": -1, b"/rollback": 1}.get(path, 0) * call.get("amount", 0)
            connection.send(response_bytes(200, b'{"type":"SUCCESS","timestamp":1,"balance":%.2f}' % (cents / 100)))
        connection.close()

    with HostileServer(dies_of_a_deposit) as server:
        options = ("--bets", 20, "--seed", 5, "--faults", "none", "--concurrency", concurrency)
        told = storm(server.base_url, "--players-file", "players.txt", *options)
    assert (told.code, told.out, after_notice(told.err).count("\n")) == (3, "", 1)
    assert re.match(
        r"Error: The wallet cannot be reached any more: \S+ .*\. It was waited for [0-9.]+ s\. ", after_notice(told.err)
    )
    assert re.search(r"Money may have moved, and bets may be open: \d+ calls were sent\.", told.err)
    assert told.err.endswith("What was sent until now is in storm-5.trace.\n")
    posts = [json.loads(line) for line in (own_folder / "storm-5.trace").read_text().splitlines()[1:]]
    unanswered = [post["path"] for post in posts if not post["answer"]]
    assert "/deposit" in unanswered
    assert len(unanswered) <= concurrency
    assert "SUCCESS, balance" in posts[0]["answer"]


# --- traces -----------------------------------------------------------------------------------------------------------


@pytest.mark.outside
@pytest.mark.parametrize(
    "name", [pytest.param("x" * 300, id="too long a name"), pytest.param("/dev/full", id="a full device")]
)
@pytest.mark.drawn(1)
def test_a_trace_that_cannot_be_written(name: str, stormed: Stormed, own_folder: Path) -> None:
    """The differences are told all the same; and nothing is left of it, for player ids are in it."""
    (own_folder / "folder").mkdir()
    told, _ = stormed("--faults", "duplicate=0.5", "--trace", own_folder / name, wallet=PaysRepeatsTwice)
    assert told.code == 1
    assert "The trace could not be written to" in told.err
    assert " too much; faults: " in told.out
    assert [path.name for path in own_folder.rglob("*")] == ["folder"]


# --- the page on it ---------------------------------------------------------------------------------------------------

_PAGE = (ROOT / "docs" / "how-to" / "storm.md").read_text(encoding="utf-8")


def test_the_page_names_all_there_is(run: Run) -> None:
    """Its tables have each fault and each way to repeat, and no other; the options that it names exist."""
    tables = dict(re.findall(r"^\| `(?!-)([a-z-]+)` \| (.*) \|$", _PAGE, re.MULTILINE))
    assert tables.keys() == _OF_STORMS | RETRY_PRESETS.keys() - {"none"}
    helped = set(re.findall(r"--[a-z][a-z-]+", run("storm", "--help").out))
    assert set(re.findall(r"`(--[a-z-]+)", _PAGE)) <= helped


@pytest.mark.outside
@pytest.mark.artefact
def test_the_page_is_played_as_it_stands(run: Run, own_folder: Path) -> None:
    """Its commands, the wallet on a port that is free; what is printed has the lines that the page shows."""
    commands = [shlex.split(line[2:]) for line in _PAGE.splitlines() if line.startswith("$ game-operator ")]
    (_, *keygen), (_, *serve), (_, *storm) = commands
    assert run(*keygen).code == 0
    with subprocess.Popen(
        [*COMMAND, *serve, "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        env=clean_environment({}),
    ) as wallet:
        assert wallet.stdout is not None
        url = json.loads(wallet.stdout.readline())["url"]
        storm[storm.index("1000")] = "100"
        told = run(*[url if part == "http://127.0.0.1:8000" else part for part in storm])
        wallet.terminate()
    assert (told.code, after_notice(told.err)) == (0, "")
    shown = _PAGE.partition("```text\n")[2].partition("```")[0]
    for line in shown.splitlines()[:9]:
        assert line.split("  ")[0] in told.out
    assert told.out.endswith("Service and wallet agree on all 100 bets and 2 claims.\n")


@pytest.mark.outside
@pytest.mark.artefact
def test_the_bug_on_the_page_is_found_as_it_is_shown(storm: Run, own_folder: Path, private_key: RSAPrivateKey) -> None:
    """The wallet of the page, stormed: all that is shown of the bug is printed, but for the ids of a run."""
    names: dict[str, Any] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", _PAGE, flags=re.DOTALL)), names)
    (options,) = re.findall(r"A storm with `(--[^`]*)`", _PAGE)
    with served_wallet(own_folder, private_key, names["ThanksTwice"]) as app:
        told = storm(app.url, "--database", app.database, *options.split())
    shown = _PAGE.partition("4 differences between")[2].partition("```")[0].splitlines()
    assert (told.code, len(shown) > 10) == (1, True)
    printed = _without_run_ids(told.out)
    for line in shown:
        assert _without_run_ids(line.removesuffix("…").rstrip()) in printed


def _without_run_ids(text: str) -> str:
    return re.sub(r"-[0-9a-f]{16}-", "-RUN-", text)
