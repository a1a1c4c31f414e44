"""
Machines for tests: network namespaces with a switch between them, which cuts, delays and loses packets.

Each machine has one address and reaches only the others: nothing leads to this machine's own network. The namespaces
have no names. A namespace lives as long as a process in it, its holder ends with this process, and the devices end with
the switch. So nothing remains, even if this process is killed.

The switch is a program of ours and not the kernel's netem, which many kernels lack. It carries packets between TUN
devices, which need nothing but ``/dev/net/tun`` and the right to make namespaces.
"""

import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from pathlib import Path
from random import Random
from typing import IO, Self

_NETWORK = "10.77.0"
_ROOT = Path(__file__).resolve().parents[2]
_TUN = Path("/dev/net/tun")
_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x1, 0x1000
_LARGEST_PACKET = 65_536
_device_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Link:
    """What happens to packets between two machines, in each direction; *loss* is a share of 1."""

    delay_seconds: float = 0.0
    jitter_seconds: float = 0.0
    loss: float = 0.0
    is_cut: bool = False


class Machine:
    """A network namespace with one address."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.address = f"{_NETWORK}.{number + 1}"
        # It says when it is in the namespace, and ends when our end of its input closes.
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        if not self._holder.stdout.readline():
            _, problem = self._holder.communicate()
            raise PermissionError(problem.decode(errors="replace").strip())

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Put this thread, and the processes and threads that it starts meanwhile, on the machine."""
        with Path("/proc/thread-self/ns/net").open() as ours, Path(f"/proc/{self._holder.pid}/ns/net").open() as its:
            _enter(its)
            try:
                yield
            finally:
                _enter(ours)

    def plug_in(self) -> int:
        """Give the machine its address, and return the file descriptor of the other end of its cable."""
        name = f"go{os.getpid()}n{next(_device_numbers)}"
        device = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
        try:
            fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
            _ip("link", "set", name, "netns", str(self._holder.pid))
            with self.entered():
                _ip("link", "set", "lo", "up")
                _ip("address", "add", f"{self.address}/24", "dev", name)
                _ip("link", "set", name, "up")
        except BaseException:
            os.close(device)
            raise
        return device

    def close(self) -> None:
        """End the holder; processes on the machine remain, without a network."""
        self._holder.communicate()


class Network:
    """
    *names* of machines, all connected, until the end of the ``with`` block.

    Attributes:
        machines: Machines by name.
    """

    def __init__(self, *names: str) -> None:
        self.machines: dict[str, Machine] = {}
        self._switch: subprocess.Popen[str] | None = None
        try:
            self._start(names)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _start(self, names: Sequence[str]) -> None:
        with contextlib.ExitStack() as ours:
            devices = []
            for number, name in enumerate(names):
                self.machines[name] = Machine(number)
                devices.append(self.machines[name].plug_in())
                ours.callback(os.close, devices[-1])
            self._switch = subprocess.Popen(
                [sys.executable, "-m", __name__, *map(str, devices)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=devices,
                cwd=_ROOT,
                text=True,
                start_new_session=True,
            )
        self.set_links(Link())

    def set_links(self, link: Link, *names: str, among: Sequence[str] | None = None) -> Mapping[str, int]:
        """
        Set the links between the machines *names* and those of *among*, by default all; without names, all links.

        Returns:
            How many packets were carried, lost and cut so far.
        """
        others = list(self.machines) if among is None else among
        pairs = [(one, other) for one in names for other in others] if names else list(combinations(others, 2))
        numbers = [(self.machines[one].number, self.machines[other].number) for one, other in pairs]
        order = [numbers, link.delay_seconds, link.jitter_seconds, link.loss, link.is_cut]
        assert self._switch is not None
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        self._switch.stdin.write(f"{json.dumps(order)}\n")
        self._switch.stdin.flush()
        counts: dict[str, int] = json.loads(self._switch.stdout.readline())
        return counts

    def cut(self, *names: str, among: Sequence[str] | None = None) -> None:
        """Let no packet pass between the machines *names* and those of *among*, by default all others."""
        self.set_links(Link(is_cut=True), *names, among=among)

    def heal(self) -> None:
        """Let all packets pass at once."""
        self.set_links(Link())

    def close(self) -> None:
        """End the switch, and with it all devices, and the machines."""
        if self._switch is not None:
            self._switch.communicate()
        for machine in self.machines.values():
            machine.close()


def why_no_namespaces() -> str:
    """Return why this machine cannot have such a network; "" if it can."""
    try:
        machine = Machine(0)
        try:
            os.close(machine.plug_in())
        finally:
            machine.close()
    except (OSError, subprocess.CalledProcessError) as refused:  # A program or device is missing, or it is not allowed.
        return f"no network of namespaces: {refused}"
    return ""


def _ip(*arguments: str) -> None:
    program = shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin")  # Debian puts it where only root looks.
    subprocess.run([program or "ip", *arguments], check=True, capture_output=True)


def _enter(namespace: IO[str]) -> None:
    # os.setns is new in Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace.fileno(), _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class _Switch:
    """Carries packets between *devices*; orders arrive on stdin, a line each, and each is answered with counts."""

    def __init__(self, devices: Sequence[int], random: Random) -> None:
        self._devices = devices
        self._random = random
        self._links: dict[tuple[int, int], Link] = {}
        #: When a packet is due, in which order it came, where it goes, and the packet.
        self._under_way: list[tuple[float, int, int, bytes]] = []
        self._numbers = count()
        self._counts = {"carried": 0, "lost": 0, "cut": 0}

    def run(self) -> None:
        """Carry until stdin ends."""
        while True:
            wait = self._under_way[0][0] - time.monotonic() if self._under_way else None
            ready = select.select([0, *self._devices], [], [], wait and max(0.0, wait))[0]
            if 0 in ready and not self._obeyed():
                return
            for number, device in enumerate(self._devices):
                if device in ready:
                    self._take(number, os.read(device, _LARGEST_PACKET))
            while self._under_way and self._under_way[0][0] <= time.monotonic():
                _, _, device, packet = heapq.heappop(self._under_way)
                self._carry(device, packet)

    def _obeyed(self) -> bool:
        line = sys.stdin.readline()
        if line:
            pairs, *values = json.loads(line)
            for one, other in pairs:
                self._links[one, other] = self._links[other, one] = Link(*values)
            print(json.dumps(self._counts), flush=True)  # noqa: T201 - the answer
        return bool(line)

    def _take(self, source: int, packet: bytes) -> None:
        to = packet[19] - 1 if packet[0] >> 4 == 4 else -1  # An address in IPv4 ends there; nothing else is carried.
        if not 0 <= to < len(self._devices):
            return
        link = self._links.get((source, to), Link())
        if link.is_cut or self._random.random() < link.loss:
            self._counts["cut" if link.is_cut else "lost"] += 1
        elif link.delay_seconds:
            delay = link.delay_seconds + self._random.uniform(-link.jitter_seconds, link.jitter_seconds)
            heapq.heappush(self._under_way, (time.monotonic() + delay, next(self._numbers), self._devices[to], packet))
        else:
            self._carry(self._devices[to], packet)

    def _carry(self, device: int, packet: bytes) -> None:
        self._counts["carried"] += 1
        with contextlib.suppress(OSError):  # A full queue or a machine that has gone: a lost packet, as on any network.
            os.write(device, packet)


if __name__ == "__main__":
    _Switch([int(device) for device in sys.argv[1:]], Random(0)).run()
