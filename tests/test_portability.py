"""
The client, the receiver and the ledger use nothing that only Unix has, unless they look first whether it is there.

Nothing here runs on Windows or macOS. The code is read, and then runs with those modules and functions hidden.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import game_operator

_SOURCE: Final = Path(game_operator.__file__).parent
#: What is read, with all that it imports of this package.
_BEGIN: Final = ("client", "transport", "signers", "protocol", "webhooks", "wallet.py", "tokens.py", "ledger")
#: Modules that Windows does not have (https://docs.python.org/3/library/unix.html), and some that macOS lacks.
_MODULES: Final = frozenset(
    [
        *("crypt", "curses", "fcntl", "grp", "nis", "ossaudiodev", "posix", "pty", "pwd", "readline", "resource"),
        *("spwd", "syslog", "termios", "tty"),
    ]
)
#: What Windows or macOS lack of modules that they have.
_NAMES: Final = {
    "os": [
        *("chown", "chroot", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getgroups"),
        *("getloadavg", "getpgid", "getpgrp", "getpriority", "getsid", "getuid", "killpg", "lchown", "mkfifo"),
        *("nice", "openpty", "pipe2", "posix_fadvise", "posix_spawn", "pread", "pwrite", "register_at_fork"),
        *("sched_getaffinity", "sendfile", "setgid", "setpgid", "setpriority", "setsid", "setuid", "statvfs"),
        *("sync", "uname", "wait", "wait3", "wait4", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW"),
        *("O_NONBLOCK", "O_SYNC"),
    ],
    "signal": [
        *("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGUSR2", "alarm", "pause"),
        *("pthread_kill", "pthread_sigmask", "setitimer", "sigwait"),
    ],
    "socket": ["AF_UNIX", "MSG_DONTWAIT", "MSG_NOSIGNAL", "SO_REUSEPORT", "TCP_KEEPIDLE"],
    "select": ["POLLIN", "POLLOUT", "epoll", "kqueue", "poll"],
    "time": ["clock_gettime", "pthread_getcpuclockid", "tzset"],
    "asyncio": ["open_unix_connection", "start_unix_server"],
}
#: The loop of Windows has none of these methods.
_METHODS: Final = frozenset({"add_signal_handler", "add_reader", "add_writer"})

#: psycopg itself needs a loop with these methods; on Windows that is a SelectorEventLoop.
_AS_PSYCOPG: Final = {"ledger/postgres/socket_reader.py": ["loop.add_reader"]}


def _modules() -> dict[Path, ast.Module]:
    """Return the files that are read, by what they import of each other."""
    waiting = [file for name in _BEGIN for file in (_SOURCE / name).rglob("*.py")]
    waiting += [_SOURCE / name for name in _BEGIN if name.endswith(".py")]
    read: dict[Path, ast.Module] = {}
    while waiting:
        file = waiting.pop()
        if file not in read:
            read[file] = ast.parse(file.read_text())
            waiting += _imported(read[file])
    return read


def _imported(module: ast.Module) -> Iterator[Path]:
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("game_operator"):
            place = _SOURCE.joinpath(*str(node.module).split(".")[1:])
            files = (place.with_suffix(".py"), place / "__init__.py", *(place / f"{one.name}.py" for one in node.names))
            yield from (file for file in files if file.is_file())


def _only_unix(tree: ast.AST, *, is_guarded: bool = False) -> Iterator[str]:
    """Yield what *tree* uses without looking whether it is there."""
    for node in ast.iter_child_nodes(tree):
        if not is_guarded:
            yield from _uses(node)
        children_are_guarded = is_guarded or _is_guard(node)
        yield from _only_unix(node, is_guarded=children_are_guarded)
        if isinstance(node, ast.If) and _is_guard(node) and isinstance(node.body[-1], ast.Return | ast.Raise):
            is_guarded = True  # What follows is not reached where it is missing.


def _is_guard(node: ast.AST) -> bool:
    if isinstance(node, ast.Try):
        return any("ImportError" in ast.dump(handler.type) for handler in node.handlers if handler.type)
    if not isinstance(node, ast.If | ast.IfExp | ast.BoolOp):
        return False
    test = ast.dump(node if isinstance(node, ast.BoolOp) else node.test)
    return "'hasattr'" in test or "attr='platform'" in test


def _uses(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names if each.name in _MODULES)
    elif isinstance(node, ast.ImportFrom):
        if node.module in _MODULES:
            yield str(node.module)
        names = _NAMES.get(str(node.module), [])
        yield from (f"{node.module}.{each.name}" for each in node.names if each.name in names)
    elif isinstance(node, ast.Attribute):
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if node.attr in _NAMES.get(owner, ()) or node.attr in _METHODS:
            yield f"{owner or '…'}.{node.attr}"


@pytest.mark.slow
def test_only_what_every_system_has_is_used() -> None:
    """In the client, the receiver, the wallets, the ledger, and all that these import of the package."""
    read = _modules()
    assert len(read) > 100
    assert _SOURCE / "models" / "webhooks.py" in read
    found = {file.relative_to(_SOURCE).as_posix(): [*_only_unix(tree)] for file, tree in read.items()}
    assert {file: uses for file, uses in found.items() if uses} == _AS_PSYCOPG


#: Dependencies are imported first: they have their own ways on each system.
_HIDDEN: Final = """
import anyio, asyncio, concurrent.futures, cryptography.hazmat.primitives.asymmetric.rsa, decimal, httpcore, httpx, json
import anyio._backends._asyncio, jwt, logging, os, pydantic, select, signal, socket, sqlite3, ssl, starlette, sys
import tempfile, threading, uvicorn

MODULES, NAMES = {modules!r}, {names!r}

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
for name in MODULES:
    sys.modules.pop(name, None)
for owner, hidden in NAMES.items():
    for name in hidden:
        vars(sys.modules[owner]).pop(name, None)
"""
_WORK: Final = """
from decimal import Decimal
from game_operator.ledger import MemoryLedger, SqlLedger
from game_operator_testkit import InProcessSandbox
from game_operator.wallet import Wallet
from game_operator.webhooks import WebhookReceiver

async def fetched(sandbox):
    async with sandbox.async_client() as client:
        return len(await client.fetch_games())

for ledger in (MemoryLedger(), SqlLedger("sqlite:///" + os.path.join({folder!r}, "wallet.db"))):
    with InProcessSandbox() as sandbox, ledger, sandbox.client() as client:
        ledger.open_account("p1", Decimal("10.00"))
        sandbox.wallet = Wallet(ledger)
        played = sandbox.play_round(player_id="p1", wager_cents=400, won_cents=150)
        assert not played.problems, played.problems
        bet = client.fetch_bet(played.bet_ids[0])
        print(type(bet).__name__, ledger.balance("p1"), len(client.fetch_games()) == asyncio.run(fetched(sandbox)))
"""
#: What a program outside of this package needs while it runs here: the event loop of Unix, and threads.
_NEEDED_HERE: Final = {"socket": {"AF_UNIX"}, "select": {"epoll"}}


@pytest.mark.artefact
@pytest.mark.outside
def test_calls_and_webhooks_work_without_it(tmp_path: Path) -> None:
    """A client asks, and a wallet in memory and one on SQLite answer, where nothing of Unix can be found."""
    names = {owner: sorted(set(hidden) - _NEEDED_HERE.get(owner, set())) for owner, hidden in _NAMES.items()}
    program = _HIDDEN.format(modules=sorted(_MODULES), names=names) + _WORK.format(folder=str(tmp_path))
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["ClosedBet 750 True"] * 2
