"""A clean environment for every command, keys and a database."""

import os
import socket
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from game_operator.cli import main
from game_operator.cli.keys import KeyFiles, write_pair
from game_operator.ledger import SqlLedger
from tests.support.command_line import Run, Told


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on the settings, proxies or terminal of whoever runs it."""
    for name in list(os.environ):
        if name.startswith("GAME_OPERATOR_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="package")
def key_file(tmp_path_factory: pytest.TempPathFactory, private_pem: bytes) -> Path:
    """The operator's private key, as it should lie on a disk."""
    path = tmp_path_factory.mktemp("keys") / "operator.pem"
    path.touch(0o600)
    path.write_bytes(private_pem)
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process."""

    def run(*args: object) -> Told:
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return Told(code, out, err)

    return run


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFiles:
    """The service's key pair."""
    return write_pair(tmp_path_factory.mktemp("service") / "service.pem", bits=2048)


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A wallet with 100.00 for p1."""
    url = f"sqlite:///{tmp_path / 'wallet.db'}"
    with SqlLedger(url) as ledger:
        ledger.open_account("p1", Decimal("100.00"))
    return url


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nobody answers: the port is taken, and does not listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
