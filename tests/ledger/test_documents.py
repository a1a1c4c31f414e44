"""docs/reference/ledger.md tells of whatever a ledger can bring up."""

import re
from inspect import getsource

import pytest

from game_operator.ledger.books import verify
from game_operator.ledger.engine.tables import toml_texts
from game_operator.ledger.rules import decide
from game_operator.webhooks import gate
from tests.support.documents import ROOT

PAGE = (ROOT / "docs" / "reference" / "ledger.md").read_text()


FINDINGS = {
    *(kind for texts in toml_texts(verify.__package__, "verify.toml").values() for kind in texts if kind != "columns"),
    *re.findall(r'Finding\("([a-z_]+)"', getsource(verify)),
} - {"negative_balance"}
ANOMALIES = {
    *re.findall(r'anomaly="([a-z_]+)"', getsource(decide)),
    *re.findall(r'anomaly = "([a-z_]+)"', getsource(decide)),
    *re.findall(r'_nothing_to_roll_back\(seen, "([a-z_]+)"\)', getsource(decide)),
    *(word for word in ("unreadable", "foreign_instance") if f'"{word}"' in getsource(gate)),
}


@pytest.mark.parametrize("kind", sorted(FINDINGS))
def test_each_finding_is_explained(kind: str) -> None:
    """Somebody whose books are wrong finds what it means."""
    assert f"`{kind}`" in PAGE


@pytest.mark.parametrize("kind", sorted(ANOMALIES))
def test_each_anomaly_has_something_to_do(kind: str) -> None:
    """In a row of the table."""
    assert re.search(rf"^\|[^|]*`{kind}`[^|]*\|[^|]+\|[^|]+\|$", PAGE, re.MULTILINE)
