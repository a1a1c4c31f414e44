"""The wallet's server in a process of its own, to be killed; and a service that calls it and does not give up."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from game_operator.models.webhooks import WebhookCall
from game_operator.protocol.webhook import encode_call
from tests.support.books import problems, read_books
from tests.support.forked import Forked
from tests.support.traffic import Answer, Log, Traffic
from tests.support.webhooks import signed

_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.05
_REPLACED = "The rolling restart has ended"

#: The command, which SIGTERM stops when who started it ends, even if killed (prctl(2), PR_SET_PDEATHSIG).
_NEW = "import ctypes, sys; ctypes.CDLL(None).prctl(1, 15); from game_operator.cli import main; sys.exit(main())"

#: After how many seconds a call without an answer is sent again; when there are no more, it is redelivered in the end.
#: Seconds here are a fiftieth of the service's, or nobody would wait.
RETRY_PRESETS: Mapping[str, tuple[float, ...]] = {
    "none": (),
    "3 at 1, 2, 4 s, then redelivery": (0.02, 0.04, 0.08),
    "10 at 1 s, then every 60 s": (*[0.02] * 10, *[1.2] * 50),
    "exponential to 24 h": tuple(min(0.02 * 2**number, 5.0) for number in range(60)),
}


#: Who has an account when there is load.
PLAYERS: Sequence[str] = ["hot", *(f"p{number}" for number in range(8))]


class WalletProcess:
    """
    ``game-operator serve`` on one database and one port, however often it is killed and started again.

    It listens on ``port`` from the first start on. With ``--workers`` among *options* it has worker processes. It is
    forked from a process that has loaded the command, with PATH and HOME as its variables. With *environment* it is a
    new interpreter, in the network of the thread that starts it.
    """

    def __init__(
        self,
        database: str,
        service_key: RSAPrivateKey,
        folder: Path,
        *options: str,
        host: str = "127.0.0.1",
        name: str = "wallet",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._database, self._options = database, options
        self._host, self._environment = host, environment
        self._key_file = folder / "service.pub.pem"
        self._key_file.write_bytes(
            service_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )
        self._log = folder / f"{name}.log"
        self.port = 0
        self._process: Forked | subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process that was started."""
        assert self._process is not None
        return self._process.pid

    def workers(self) -> list[int]:
        """Return the processes that it has started to answer calls and that have not ended."""
        return workers_of(self.pid)

    def restart_workers(self) -> None:
        """Let it replace its workers; return when it has."""
        asked = self.log().count(_REPLACED)
        os.kill(self.pid, signal.SIGHUP)
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while self.log().count(_REPLACED) == asked:
            assert time.monotonic() < give_up, f"the workers are not replaced:\n{self.log()[-2000:]}"
            time.sleep(0.02)

    def log(self) -> str:
        """Return what it has written to stderr, of all its lives."""
        return self._log.read_text()

    def start(self) -> None:
        """Start; return when it takes calls."""
        command = ["serve", "--json", "--database", self._database, "--service-key", str(self._key_file)]
        command += ["--port", str(self.port), "--host", self._host, *self._options]
        with self._log.open("ab") as log:
            if self._environment is None:
                self._process = Forked(command, environ={}, stderr=log.fileno())
            else:
                command = [sys.executable, "-c", _NEW, *command]
                self._process = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=log, env=self._environment, text=True
                )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said, f"the wallet did not start:\n{self.log()[-2000:]}"
        self.port = urlsplit(json.loads(said)["url"]).port or 0

    def kill(self) -> None:
        """Kill it, in the middle of whatever it does."""
        assert self._process is not None
        self._process.kill()
        self._bury()

    def kill_if_running(self) -> None:
        """Kill it, unless it was killed before."""
        if self._process is not None:
            self.kill()

    def stop(self) -> None:
        """Stop it as an operator would, if it runs, and assert that it stopped well."""
        if self._process is not None:
            self._process.terminate()
            status = self._bury()
            assert status == 0, f"the wallet stopped with {status}:\n{self.log()[-2000:]}"

    def _bury(self) -> int:
        process, self._process = self._process, None
        assert process is not None
        status = process.wait(_PATIENCE_SECONDS)
        with process:
            """Its pipes are closed."""
        return status


def workers_of(supervisor: int) -> list[int]:
    """Return the children of a supervisor that answer calls; Python has another one that tidies up after it."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return [int(pid) for pid in children if _is_worker(pid)]


def _is_worker(pid: str) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


class Service:
    """
    Calls a wallet over several connections, one thread each, and sends a call again by the connection's retry preset.

    Attributes:
        log: What was answered, doubts included: a call without an answer is one with SYSTEM_ERROR.
        doubts: How many calls were sent and never answered.
        begun: The bets of the calls that were sent.
        pause: How many seconds a connection waits before each call.
    """

    def __init__(self, key: RSAPrivateKey, port: int, calls: Iterable[WebhookCall]) -> None:
        self._key = key
        self._port = port
        self._calls: SimpleQueue[WebhookCall] = SimpleQueue()
        for call in calls:
            self._calls.put(call)
        self._stopped = threading.Event()
        self._running: list[Future[None]] = []
        self.log: Log = []
        self.doubts = 0
        self.begun: set[str] = set()
        self.pause = 0.0

    def start(self, presets: Sequence[Sequence[float]]) -> None:
        """Begin to call, with a connection for each preset."""
        pool = ThreadPoolExecutor(len(presets))
        self._running = [pool.submit(self._run, preset) for preset in presets]
        pool.shutdown(wait=False)

    def stop(self) -> None:
        """Begin no further call; return when those under way are answered or given up."""
        self._stopped.set()
        for each in self._running:
            each.result(_PATIENCE_SECONDS)

    def insist(self, calls: Iterable[WebhookCall]) -> None:
        """Send *calls* from here, each until it is answered definitely."""
        with closing(self._connection()) as connection:
            for call in calls:
                until = time.monotonic() + _PATIENCE_SECONDS
                while not self._post(connection, call).definite:
                    assert time.monotonic() < until, f"no definite answer to {call}"
                    time.sleep(0.02)

    def answers_by_code(self) -> Counter[str]:
        """Return how often each code was answered."""
        return Counter(answer.code or "SUCCESS" for answer in self.log)

    def _run(self, preset: Sequence[float]) -> None:
        with closing(self._connection()) as connection:
            for call in self._waiting():
                self._send(connection, call, preset)

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=_PATIENCE_SECONDS)

    def _waiting(self) -> Iterator[WebhookCall]:
        while not self._stopped.wait(self.pause):
            try:
                yield self._calls.get_nowait()
            except Empty:
                return

    def _send(self, connection: http.client.HTTPConnection, call: WebhookCall, preset: Sequence[float]) -> None:
        self.begun.add(getattr(call, "bet_id", ""))
        if self._post(connection, call).definite:
            return
        for seconds in preset:
            if self._stopped.wait(seconds):
                return
            if self._post(connection, call).definite:
                return

    def _post(self, connection: http.client.HTTPConnection, call: WebhookCall) -> Answer:
        body = encode_call(call)
        asked_at = time.monotonic()
        answer = Answer(call, "SYSTEM_ERROR", None, None, asked_at)
        try:
            connection.request("POST", f"/{call.operation}", body, signed(self._key, body))
            response = connection.getresponse()
            reply = response.read()
        except (OSError, http.client.HTTPException) as failed:
            connection.close()  # The next request opens it anew.
            if isinstance(failed, ConnectionRefusedError):  # It was not even sent, and the next would not be either.
                time.sleep(_PAUSE_SECONDS)
            else:
                self.doubts += 1
        else:
            assert response.status == 200, f"{call} was answered {response.status}: {reply!r}"
            answer = _answer(call, reply, asked_at)
        self.log.append(answer)
        return answer


class Load:
    """Traffic over eight connections, from the start of a block until its end; then the books are audited."""

    def __init__(self, url: str, key: RSAPrivateKey, wallet: WalletProcess, *, calls: int, seed: int) -> None:
        self._url = url
        # Half of the traffic is the hot player's.
        self._traffic = Traffic(seed, [*PLAYERS, *["hot"] * len(PLAYERS)], calls)
        self.service = Service(key, wallet.port, self._traffic.arrivals())

    def __enter__(self) -> Self:
        self.service.start([*RETRY_PRESETS.values()] * 2)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.service.stop()

    def audited(self) -> str:
        """Repeat all calls that were begun, assert that the books are right, and return figures."""
        begun = [story for story in self._traffic.stories if story.bet_id in self.service.begun]
        self.service.insist(call for story in begun for call in story.calls)
        assert problems(read_books(self._url), begun, self.service.log) == []
        answered = sum(answer.definite for answer in self.service.log)
        return f"{len(begun)} bets and claims, {answered} calls answered, {self.service.doubts} in doubt"


def _answer(call: WebhookCall, reply: bytes, asked_at: float) -> Answer:
    said = json.loads(reply, parse_float=Decimal)
    cents = None if said.get("balance") is None else int(said["balance"] * 100)
    code = None if said["type"] == "SUCCESS" else said["code"]
    return Answer(call, code, cents, said.get("timestamp"), asked_at, time.monotonic())
