"""docs/how-to/backups.md: stop bets, restore, catch up, reconcile, start bets, as one script on both databases."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.books import execute
from tests.support.documents import ROOT
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.outside

_PAGE = (ROOT / "docs" / "how-to" / "backups.md").read_text()


def _script() -> dict[str, Any]:  # Any: the names of a program.
    """Run the page's program, which rehearses on SQLite, and return its names."""
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL):
        exec(block, names)
    return names


def test_the_rehearsal(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite with a copy of the file; on PostgreSQL with a copy of the database, while nobody is connected."""
    monkeypatch.chdir(tmp_path)
    rehearse = _script()["rehearse"]
    url, restored = (postgres.url.replace("///postgres?", f"///{name}?") for name in ("rehearsed", "rehearsed_copy"))
    execute(postgres.url, "CREATE DATABASE rehearsed")
    try:
        rehearse(url, restored, lambda: execute(postgres.url, "CREATE DATABASE rehearsed_copy TEMPLATE rehearsed"))
    finally:
        for each in (url, restored):
            postgres.drop_database(each)
