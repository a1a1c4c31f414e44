"""The generated pages say what is looked up, and every public name is on one of them."""

import re
from collections import Counter

import pytest

from game_operator.cli.output import explained_at
from game_operator.ledger import doctor
from game_operator.ledger.engine.tables import toml_texts
from game_operator.ledger.staff.anomalies import anomaly_texts
from tests.support.api_pages import MODULES, api_pages, public_names
from tests.support.generated_pages import generated_pages


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("reference/cli.md", "| [`ledger open`](cli/ledger-open.md) | Open an account. |"),
        ("reference/cli/certify.md", "# game-operator certify\n"),
        ("reference/cli/reconcile-run.md", "| `--max-bets N` | With `--repair`: settle at most so many bets."),
        ("reference/codes.md", "| `BET_NOT_FOUND` | the bet is unknown | final | send again | final | final |"),
        ("reference/codes.md", "| 130 | interrupted |"),
        ("reference/profile.md", "| `rollback_tx_id` | `'withdraw'` or `'own'` | `'withdraw'` |"),
        ("reference/schema.md", "## postings\n\nPrimary key: `id`, `at_millis`."),
        ("reference/schema.md", "| `settled_by` | text | text | yes |"),
        ("reference/api/errors.md", "::: game_operator.ledger.UnknownSourceError\n"),
        ("reference/api/client.md", "::: game_operator.AsyncOperatorClient\n    options: {members: false"),
    ],
)
def test_a_page_has_what_is_looked_up(name: str, holds: str) -> None:
    """A page that is written from nothing would be built, too."""
    assert holds in generated_pages()[name]


def test_every_public_name_is_on_one_page() -> None:
    """By the first module that offers it; twice would be two anchors."""
    texts = "".join(api_pages().values())
    names = Counter(name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)$", texts, re.MULTILINE))
    assert {name for module, _ in MODULES.values() for name in public_names(module)} == set(names)
    assert [name for name, count in names.items() if count > 1] == []
    assert len(names) > 150


@pytest.mark.parametrize(
    ("what", "names"),
    [("doctor", toml_texts(doctor.__name__, "doctor.toml")), ("anomaly", anomaly_texts())],
    ids=["checks of the doctor", "anomalies"],
)
def test_what_is_reported_leads_to_its_heading(what: str, names: dict[str, object]) -> None:
    """The link that the command prints beside it."""
    headings = re.findall(r"^### (.+)$", generated_pages()["reference/findings.md"], re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = [explained_at(what, name) for name in names]
    assert len(links) > 20
    assert [link for link in links if link.removeprefix("reference/findings.html#") not in anchors] == []
