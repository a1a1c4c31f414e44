"""docs/tutorials: whoever copies the blocks in order gets what the page shows."""

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from testkit.tests.certifier.other_languages import LANGUAGES, need
from tests.support.documents import ROOT, TUTORIALS
from tests.support.postgres import PostgresServer
from tests.support.tutorials import Reader

pytestmark = pytest.mark.timeout(240)

_TUTORIALS = ROOT / "docs" / "tutorials"
_FASTAPI = _TUTORIALS / "fastapi.md"
_DJANGO = _TUTORIALS / "django.md"
_ANOTHER_LANGUAGE = _TUTORIALS / "another-language.md"
#: The gate certifies by four scenarios, and `make torture` by all.
_BRIEFLY = {"deadline=600)": 'deadline=600, only=["B01", "C01", "D01", "G03"])'}


def _other_ports(*ports: int) -> dict[str, str]:
    """Return what a reader writes in place of *ports*, which may be in use here."""
    with ExitStack() as listening:
        free = [listening.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in ports]
    return {
        pattern.format(port): pattern.format(other)
        for port, other in zip(ports, free, strict=True)
        for pattern in ("127.0.0.1:{}", "--port {}", "--noreload {}", "pem {} p1")
    }


def _databases(postgres: PostgresServer) -> dict[str, str]:
    """Return two empty databases in place of those of the page."""
    address = "postgresql+psycopg://casino:secret@127.0.0.1/casino"
    return {
        f"{address}{name}\n": f"'{postgres.create_database().replace('postgresql', 'postgresql+psycopg', 1)}'\n"
        for name in ("", "_test")
    }


def _follow(page: Path, folder: Path, changes: Mapping[str, str], *, patience_seconds: float = 200) -> None:
    with Reader(folder, changes, patience_seconds=patience_seconds) as reader:
        reader.follow(page)


@pytest.mark.artefact
@pytest.mark.outside
def test_fastapi(tmp_path: Path, postgres: PostgresServer) -> None:
    """From an empty folder to a certified wallet in PostgreSQL that keeps limits."""
    _follow(_FASTAPI, tmp_path, _databases(postgres) | _other_ports(8000, 9000) | _BRIEFLY)


@pytest.mark.torture
@pytest.mark.outside
@pytest.mark.timeout(1_000)
@pytest.mark.parametrize("page", [_FASTAPI, _DJANGO], ids=lambda page: page.stem)
def test_the_wallet_is_certified(page: Path, tmp_path: Path, postgres: PostgresServer) -> None:
    """From an empty folder, with all scenarios of the certifier; in PostgreSQL, and in Django's database."""
    _follow(page, tmp_path, _databases(postgres) | _other_ports(8000, 9000), patience_seconds=900)


@pytest.mark.torture
@pytest.mark.outside
@pytest.mark.timeout(300)
def test_another_language(tmp_path: Path) -> None:
    """A wallet in Node.js passes, and the copy with a mistake loses money; below that, the page has the rules."""
    node = LANGUAGES["Node.js"]
    need(node.missing)
    node.command(tmp_path)  # It puts the wallet and its modules there, as a reader does.
    steps, rules, _ = _ANOTHER_LANGUAGE.read_text().partition("\n## The rules\n")
    assert rules
    _follow(_page(tmp_path, steps), tmp_path, _other_ports(8000, 8001), patience_seconds=200)


# The reader.


def _page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text)
    return page


def _console(command: str, shown: str) -> str:
    return f"Do this:\n\n```console\n$ {command}\n```\n\n```text\n{shown}\n```\n"


@pytest.mark.outside
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(_console("echo one", "two"), "one", id="other output"),
        pytest.param(_console("false", ""), "false", id="a command that fails"),
        pytest.param("Look:\n\n```python\nprint(1)\n```\n", r"what is done", id="a block that nobody places"),
        pytest.param("Look:\n\n```text\none\n```\n", r"nothing was typed", id="output of nothing"),
        pytest.param("Add this to the end of `a.txt`:\n\n```sh\none\n```\n", r"a\.txt", id="an end of no file"),
    ],
)
def test_a_page_that_shows_something_else_fails(text: str, problem: str, tmp_path: Path) -> None:
    """A reader does what stands there, to the letter."""
    folder = tmp_path / "empty"
    folder.mkdir()
    with pytest.raises(AssertionError, match=problem):
        _follow(_page(tmp_path, text), folder, {})


def test_every_tutorial_is_followed() -> None:
    """The pages that no other test runs are those that are followed here."""
    assert [page.stem for page in (_DJANGO, _FASTAPI, _ANOTHER_LANGUAGE)] == list(TUTORIALS)
