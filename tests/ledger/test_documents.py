"""docs/reference/tables.md tells of whatever a ledger can bring up."""

import re
from inspect import getsource

from game_operator.ledger.books import verify
from game_operator.ledger.engine.tables import toml_texts
from game_operator.ledger.rules import decide
from game_operator.ledger.staff.anomalies import anomaly_texts
from game_operator.webhooks import gate
from tests.support.documents import ROOT

PAGE = (ROOT / "docs" / "reference" / "tables.md").read_text()


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


def test_each_finding_is_explained() -> None:
    """Somebody whose books are wrong finds what it means."""
    assert len(FINDINGS) > 20
    assert [kind for kind in FINDINGS if f"`{kind}`" not in PAGE] == []


def test_each_kind_of_anomaly_has_something_to_do() -> None:
    """What the ledger can keep is what anomalies.toml explains."""
    assert len(ANOMALIES) > 20
    assert set(anomaly_texts()) >= ANOMALIES
