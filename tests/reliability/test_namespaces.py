"""The network that other tests break: it cuts, delays and loses what it is asked to, and leaves nothing behind."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.namespaces import Link, Network, why_no_namespaces

pytestmark = [pytest.mark.torture, pytest.mark.outside]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def network() -> Iterator[Network]:
    """Two machines."""
    if reason := why_no_namespaces():
        pytest.skip(reason)
    with Network("one", "other") as network:
        yield network


def reached(network: Network, address: str, port: int = 9, seconds: float = 0.5) -> bool:
    """Return whether the machine "one" gets an answer from *address*, be it that nothing listens there."""
    with network.machines["one"].entered(), closing(socket.socket()) as connection:
        connection.settimeout(seconds)
        try:
            connection.connect((address, port))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    raise AssertionError("something listens there")


def test_a_cut_and_its_healing(network: Network) -> None:
    """Machines reach each other unless they are cut off."""
    other = network.machines["other"].address
    assert reached(network, other)
    network.cut("one")
    assert not reached(network, other)
    network.heal()
    assert reached(network, other)


def test_delay_and_loss(network: Network) -> None:
    """A packet and its answer take twice the delay, and a loss of all is a cut."""
    other = network.machines["other"].address
    network.set_links(Link(delay_seconds=0.1, jitter_seconds=0.02))
    began = time.monotonic()
    assert reached(network, other)
    assert time.monotonic() - began >= 0.16
    network.set_links(Link(loss=1.0))
    assert not reached(network, other)
    counts = network.set_links(Link())
    assert counts["lost"] > 0
    assert counts["cut"] == 0


def test_nothing_leads_out(network: Network) -> None:
    """Neither this machine nor any other network is reached."""
    assert not reached(network, "192.0.2.1")
    assert not reached(network, "10.77.0.9")
    with socket.create_server(("127.0.0.1", 0)) as server:
        # Refused: the namespace has an address like that, too, and nothing listens there.
        assert reached(network, "127.0.0.1", server.getsockname()[1])


_BUILT = """
from tests.support.namespaces import Network
network = Network("one", "other")
print(*(machine._holder.pid for machine in network.machines.values()), network._switch.pid, flush=True)
input()
"""


@pytest.mark.parametrize("signal", ["KILL", "INT"])
def test_nothing_remains(network: Network, signal: str) -> None:
    """The process that made the network is killed or interrupted: its namespaces and its switch end with it."""
    del network  # It is made there.
    command = [sys.executable, "-c", _BUILT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        helpers = [Path("/proc", pid) for pid in process.stdout.readline().split()]
        assert len(helpers) == 3
        assert all(helper.exists() for helper in helpers)
        subprocess.run(["kill", f"-{signal}", str(process.pid)], check=True)
    until = time.monotonic() + 10
    while any(helper.exists() for helper in helpers):
        assert time.monotonic() < until
        time.sleep(0.02)
