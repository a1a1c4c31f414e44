"""Forks: each process opens connections of its own, and leaves its parent's alone (docs/decisions/0004)."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.hostile_server import HostileServer, knows_every_bet

pytestmark = [pytest.mark.outside, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]


# The programs run outside pytest, which has threads, and a process with threads should not fork. One interpreter
# imports everything and gives each program a process of its own, which ends as an interpreter does.
_RUNNER = """
import json, multiprocessing, os, sys, traceback
from pathlib import Path
import httpx
from game_operator import ConfigurationError, OperatorClient

httpx.HTTPTransport(verify=False).close()  # For what httpx imports late.
key = Path(sys.argv[1])

def in_child(work):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0, "the child failed"

def run(name, program, base_url):
    written = Path(sys.argv[2]) / name
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(written, os.O_WRONLY | os.O_CREAT), 1)
        os.dup2(1, 2)
        exec(compile(program, name, "exec"), globals() | {"base_url": base_url})
        sys.exit()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, written.read_text()

print(json.dumps({name: run(name, *program) for name, program in json.load(sys.stdin).items()}))
"""

_SYNC = """
client = OperatorClient(base_url, "acme", key, trust_env=False)
client.fetch_bet("parent-1")
in_child(lambda: client.fetch_bet("child-1"))
client.fetch_bet("parent-2")
in_child(client.close)
client.fetch_bet("parent-3")
client.close()
"""

_SYNC_WHILE_A_THREAD_OPENS = """
client = OperatorClient(base_url, "acme", key, trust_env=False)
client._wire._lock().acquire()  # As a thread would that opens the first connection at this moment.
in_child(lambda: client.fetch_bet("child-1"))
client._wire._lock().release()
client.fetch_bet("parent-1")
client.close()
"""

_YOURS = """
http_client = httpx.Client(trust_env=False)
client = OperatorClient(base_url, "acme", key, http_client=http_client)
client.fetch_bet("parent-1")

def work():
    try:
        client.fetch_bet("child-1")
    except ConfigurationError as error:
        print(error)

in_child(work)
client.fetch_bet("parent-2")
http_client.close()
"""


_SENTENCE = "This process was forked after the client had been used"

# Each row: a program, the bets asked for on each connection, and what the program prints.
_PROGRAMS = {
    "used, then forked": (_SYNC, [["parent-1", "parent-2", "parent-3"], ["child-1"]], ""),
    "forked while a thread opens": (_SYNC_WHILE_A_THREAD_OPENS, [["child-1"], ["parent-1"]], ""),
    "your client, used before": (_YOURS, [["parent-1"], ["parent-2"]], _SENTENCE),
}


#: How a program ended: its exit code, what it printed, and the bets asked for on each connection.
Ended = tuple[int, str, list[list[str]]]


@pytest.fixture(scope="module")
def ended(private_pem: bytes, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """All programs, run."""
    directory = tmp_path_factory.mktemp("programs")
    key = directory / "key.pem"
    key.write_bytes(private_pem)
    servers = {name: HostileServer(knows_every_bet).__enter__() for name in _PROGRAMS}
    work = {name: (program, servers[name].base_url) for name, (program, _, _) in _PROGRAMS.items()}
    arguments = [sys.executable, "-W", "error", "-c", _RUNNER, str(key), str(directory)]
    done = subprocess.run(arguments, input=json.dumps(work), capture_output=True, text=True, timeout=50, check=False)
    for server in servers.values():
        server.__exit__(None, None, None)
    assert (done.returncode, done.stderr) == (0, "")
    ends: dict[str, tuple[int, str]] = json.loads(done.stdout)
    return {name: (code, printed, _bet_ids(servers[name])) for name, (code, printed) in ends.items()}


def _bet_ids(server: HostileServer) -> list[list[str]]:
    """Return the bets asked for on each connection."""
    return [
        [request.split(b" ")[1].rpartition(b"/")[2].decode() for request in connection.requests]
        for connection in server.connections
    ]


@pytest.mark.outside
@pytest.mark.parametrize("name", _PROGRAMS)
@pytest.mark.drawn(3)
def test_each_process_has_connections_of_its_own(name: str, ended: dict[str, Ended]) -> None:
    """Parent and child speak over different connections; your client stays where it was used (docs/decisions/0004)."""
    _, bet_ids, told = _PROGRAMS[name]
    code, printed, asked = ended[name]
    assert (code, asked) == (0, bet_ids), printed
    assert printed.startswith(told)
    assert bool(printed) is bool(told), printed
