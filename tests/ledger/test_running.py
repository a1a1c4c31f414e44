"""docs/how-to/runbook.md: every command runs in the situation that it is for, and prints what the page says."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from decimal import Decimal
from io import StringIO
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.cli import main
from game_operator.ledger import SqlLedger
from game_operator.models.webhooks import DepositCall, WithdrawCall
from tests.support.books import execute
from tests.support.documents import ROOT, ShellBlock, shell_blocks
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresServer
from tests.support.postgres_binaries import find_binaries
from tests.support.replication import follow
from tests.support.wallet_process import WalletProcess

PAGE = ROOT / "docs" / "how-to" / "runbook.md"
BLOCKS = shell_blocks(PAGE)
_DAY_MILLIS = 86_400_000
#: The day of the page's bets is three days ago, so that one of them waits for more than two.
_WRITTEN = "2026-11-20"
_THEN_MILLIS = (time.time_ns() // 1_000_000 // _DAY_MILLIS - 3) * _DAY_MILLIS + _DAY_MILLIS // 2
_THEN = time.strftime("%Y-%m-%d", time.gmtime(_THEN_MILLIS / 1_000))

Setting = Callable[[str], None]


def _bets(url: str, *, now_millis: int = _THEN_MILLIS) -> None:
    """Store what the page shows: ann with a bet that is won, one that is open, and a deposit before its withdraw."""
    with SqlLedger(url, clock_millis=lambda: now_millis) as ledger:
        ledger.open_account("ann", Decimal("100.00"))
        for bet_id, won_cents in (("b1", 1_250), ("b2", None)):
            ledger.apply(WithdrawCall(player_id="ann", bet_id=bet_id, amount_cents=500))
            if won_cents is not None:
                ledger.apply(DepositCall(player_id="ann", bet_id=bet_id, amount_cents=won_cents))
        ledger.apply(DepositCall(player_id="ann", bet_id="b3", amount_cents=500))


def _balance_by_hand(url: str) -> None:
    _bets(url)
    execute(url, "UPDATE game_operator_accounts SET balance_cents = balance_cents + 100")


def _clock_ahead(url: str) -> None:
    _bets(url, now_millis=time.time_ns() // 1_000_000 + _DAY_MILLIS)


#: The sections whose situation is another than that of the page's bets.
SETTINGS: dict[str, Setting] = {"Verify finds something": _balance_by_hand, "The clock was wrong": _clock_ahead}
ON_POSTGRES = ("Watch growth and free space", "Keep or drop old details", "Calls are stuck", "A key leaked")
ELSEWHERE = ("The primary is lost", "The standby is lost", "The pooler is in the wrong mode", "The wallet is not ready")
ON_SQLITE = [heading for heading, blocks in BLOCKS.items() if blocks and heading not in ON_POSTGRES + ELSEWHERE]


def test_every_command_is_run() -> None:
    """The page has the sections that the tests below run."""
    assert {*SETTINGS, *ON_POSTGRES, *ELSEWHERE} < {heading for heading, blocks in BLOCKS.items() if blocks}
    assert len(re.findall(r"^ *```sh$", PAGE.read_text(), re.MULTILINE)) == sum(map(len, BLOCKS.values()))
    assert all(block.output for blocks in BLOCKS.values() for block in blocks)


@pytest.mark.outside
@pytest.mark.parametrize("heading", ON_SQLITE)
def test_a_task(heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite, in the situation that the section describes."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    SETTINGS.get(heading, _bets)(url)
    monkeypatch.chdir(tmp_path)
    _run_section(heading, monkeypatch, url)


@pytest.mark.artefact
@pytest.mark.outside
@pytest.mark.parametrize("heading", ON_POSTGRES)
def test_a_task_of_postgres(heading: str, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a session of another program that has locked an account."""
    _bets(postgres_url)
    with SqlLedger(postgres_url) as ledger:
        ledger.maintain()
    monkeypatch.chdir(tmp_path)
    with closing(psycopg.connect(postgres_url, application_name="report")) as other:
        other.execute("SELECT 1 FROM game_operator_accounts FOR UPDATE")
        monkeypatch.setenv("PID", str(other.info.backend_pid))
        _run_section(heading, monkeypatch, postgres_url)


@pytest.mark.outside
@pytest.mark.torture
def test_the_primary_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the primary's disk is promoted, as its standby."""
    with PostgresServer(settings={"wal_level": "replica"}) as primary, PostgresServer() as standby:
        url = primary.create_database()
        _bets(url)
        follow(standby, str(primary.folder))
        primary.kill()
        monkeypatch.chdir(tmp_path)
        _run_section("The primary is lost", monkeypatch, url.replace(str(primary.folder), str(standby.folder)))


@pytest.mark.outside
@pytest.mark.torture
def test_the_standby_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A primary whose commits wait for a standby that is not there."""
    with PostgresServer() as primary:
        url = primary.create_database()
        _bets(url)
        execute(url, "ALTER SYSTEM SET synchronous_standby_names = 'standby1'")
        execute(url, "SELECT pg_reload_conf()")
        _run_section("The standby is lost", monkeypatch, url)


@pytest.mark.outside
@pytest.mark.torture
def test_the_pooler_is_in_the_wrong_mode(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With statement pooling the doctor has the error; with transactions it has the advice that the page quotes."""
    url = postgres.create_database()
    _bets(url)
    with PgBouncer(postgres, pool_mode="statement") as bouncer:
        monkeypatch.setenv("PGBOUNCER_PORT", "6432")
        _run_section("The pooler is in the wrong mode", monkeypatch, bouncer.url(url))
    with PgBouncer(postgres) as bouncer:
        quoted = next(line for line in PAGE.read_text().splitlines() if line.startswith("→ pooler"))
        assert quoted in _printed(f"game-operator ledger doctor --database '{bouncer.url(url)}'")[0]
    postgres.drop_database(url)


@pytest.mark.outside
@pytest.mark.torture
def test_the_wallet_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private_key: RSAPrivateKey) -> None:
    """It is."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    _bets(url)
    with WalletProcess(url, private_key, tmp_path) as wallet:
        monkeypatch.setenv("PORT", str(wallet.port))
        _run_section("The wallet is not ready", monkeypatch, url)


# --- How blocks run ---------------------------------------------------------------------------------------------------


def _run_section(heading: str, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Run the blocks below *heading*, one after the other."""
    for program in ("curl", "sqlite3"):
        if any(f"{program} " in block.commands for block in BLOCKS[heading]) and shutil.which(program) is None:
            pytest.skip(f"the program {program} is not installed")
    for name in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GAME_OPERATOR_DATABASE_URL", url)
    parts = urlsplit(url)
    place = {"PGDATABASE": parts.path[1:], "PGHOST": parse_qs(parts.query).get("host", [""])[0], "PGUSER": "postgres"}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    programs = [str(Path(sys.executable).parent), str(find_binaries()), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(programs))
    for block in BLOCKS[heading]:
        ShellBlock(*(text.replace(_WRITTEN, _THEN) for text in block)).assert_printed(
            "".join(_checked(command) for command in _commands(block.commands.replace(_WRITTEN, _THEN)))
        )


def _commands(block: str) -> Iterator[str]:
    """Yield the commands of *block*, of which a quoted text may have several lines."""
    command = ""
    for line in block.splitlines():
        command += line + "\n"
        try:
            shlex.split(command)
        except ValueError:  # No closing quotation.
            continue
        yield command
        command = ""


def _checked(command: str) -> str:
    printed, code = _printed(command)
    assert code == int("✗" in printed), f"{command}ended with {code}:\n{printed}"
    return printed


def _printed(command: str) -> tuple[str, int]:
    """Return what *command* prints, and its exit code; ours runs in this process, which is quicker."""
    program, *arguments = shlex.split(command)
    if program == "game-operator" and not {"|", "||", "2>&1"} & set(arguments):
        with redirect_stdout(StringIO()) as out, redirect_stderr(out):
            code = main(arguments)
        return out.getvalue(), code
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=50, check=False)
    printed = done.stdout + done.stderr
    return printed + "\n" * (printed[-1:] not in ("", "\n")), done.returncode
