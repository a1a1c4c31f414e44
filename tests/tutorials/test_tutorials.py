"""docs/tutorials: whoever copies the blocks in order gets what the page shows."""

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.documents import ROOT
from tests.support.postgres import PostgresServer
from tests.support.tutorials import Reader

_TUTORIALS = ROOT / "docs" / "tutorials"
_FASTAPI = _TUTORIALS / "fastapi.md"
_DJANGO = _TUTORIALS / "django.md"
#: The gate certifies by four scenarios, and `make torture` by all.
_BRIEFLY = {"deadline=600)": 'deadline=600, only=["B01", "C01", "D01", "G03"])'}


def _other_ports(*ports: int) -> dict[str, str]:
    """Return what a reader writes in place of *ports*, which may be in use here."""
    with ExitStack() as listening:
        free = [listening.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in ports]
    return {
        pattern.format(port): pattern.format(other)
        for port, other in zip(ports, free, strict=True)
        for pattern in ("127.0.0.1:{}", "--port {}", "--noreload {}")
    }


def _databases(postgres: PostgresServer) -> dict[str, str]:
    """Return two empty databases in place of those of the page."""
    address = "postgresql+psycopg://casino:secret@127.0.0.1/casino"
    return {
        f"{address}{name}\n": f"'{postgres.create_database().replace('postgresql', 'postgresql+psycopg', 1)}'\n"
        for name in ("", "_test")
    }


def _follow(page: Path, folder: Path, changes: Mapping[str, str], *, patience_seconds: float = 50) -> None:
    with Reader(folder, changes, patience_seconds=patience_seconds) as reader:
        reader.follow(page)


@pytest.mark.outside
def test_fastapi(tmp_path: Path, postgres: PostgresServer) -> None:
    """From an empty folder to a tested wallet in PostgreSQL, with traces in memory."""
    _follow(_FASTAPI, tmp_path, _databases(postgres) | _other_ports(8000, 9000) | _BRIEFLY)


@pytest.mark.outside
def test_django(tmp_path: Path) -> None:
    """From an empty folder to a tested wallet in Django's database."""
    _follow(_DJANGO, tmp_path, _other_ports(8000, 9000) | _BRIEFLY)


@pytest.mark.torture
@pytest.mark.outside
@pytest.mark.timeout(1_000)
@pytest.mark.parametrize("page", [_FASTAPI, _DJANGO], ids=lambda page: page.stem)
def test_the_wallet_is_certified(page: Path, tmp_path: Path, postgres: PostgresServer) -> None:
    """The same, with all scenarios of the certifier."""
    _follow(page, tmp_path, _databases(postgres) | _other_ports(8000, 9000), patience_seconds=900)
