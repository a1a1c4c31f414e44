"""docs/reference: what is written from the program is up to date, and every public name is on a page of the API."""

import re
from collections import Counter
from importlib import import_module
from inspect import ismodule
from typing import Final

import pytest

from tests.support.documents import ROOT
from tests.support.reference_pages import PAGES, page

_REFERENCE: Final = ROOT / "docs" / "reference"
_NAMES: Final = Counter(
    name
    for each in (_REFERENCE / "api").glob("*.md")
    for name in re.findall(r"^::: (\S+)$", each.read_text(), re.MULTILINE)
)
#: What a reader of the API imports from, beside game_operator itself.
_PACKAGES: Final = (
    *(f"game_operator.{name}" for name in ("backoffice", "ledger", "signers", "webhooks")),
    "game_operator_testkit",
    *(f"game_operator_testkit.{name}" for name in ("certifier", "control_room", "sandbox")),
)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_program_is(name: str) -> None:
    """Each command, code, field and column: python -m tests.support.reference_pages writes the pages."""
    assert (_REFERENCE / name).read_text() == page(name)


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("cli.md", "## game-operator certify\n"),
        ("cli.md", "### game-operator ledger open\n"),
        ("cli.md", "| `--max-bets N` | With `--repair`: settle at most so many bets."),
        ("codes.md", "| `BET_NOT_FOUND` | the bet is unknown | final | send again | final | final |"),
        ("codes.md", "| 130 | interrupted |"),
        ("profile.md", "| `rollback_tx_id` | `'withdraw'` or `'own'` | `'withdraw'` |"),
        ("schema.md", "## postings\n\nPrimary key: `id`, `at_millis`."),
        ("schema.md", "| `settled_by` | text | text | yes |"),
    ],
)
def test_a_page_has_what_is_looked_up(name: str, holds: str) -> None:
    """A page that is written from nothing would be up to date, too."""
    assert holds in page(name)


def _public(module: str) -> set[str]:
    """Return the names that a module offers: those of its ``__all__``, or else those without an underscore."""
    found = import_module(module)
    names = getattr(found, "__all__", None) or [
        name for name, value in vars(found).items() if not name.startswith("_") and not ismodule(value)
    ]
    return {f"{module}.{name}" for name in names}


@pytest.mark.parametrize("module", _PACKAGES)
def test_every_name_of_a_package_is_on_a_page(module: str) -> None:
    """By its own name, or by that in game_operator."""
    documented = {name.rpartition(".")[2] for name in _NAMES if name.count(".") == 1}
    missing = {name for name in _public(module) - set(_NAMES) if name.rpartition(".")[2] not in documented}
    assert missing == set()


def test_every_name_of_the_root_is_on_a_page() -> None:
    """All but the version."""
    assert _public("game_operator") - set(_NAMES) == {"game_operator.__version__"}


def test_a_name_is_on_one_page_and_exists() -> None:
    """Twice would be two anchors; what is gone would be found by the build alone."""
    assert [name for name, count in _NAMES.items() if count > 1] == []
    for name in _NAMES:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute), name
    assert len(_NAMES) > 150
