"""The documents lead somewhere; that their code runs is the business of the top conftest."""

import re
from pathlib import Path

import pytest

from tests.support.documents import ROOT

_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
_DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("document", _DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(document: Path) -> None:
    """A link to a page that is not there is found here and not by a reader."""
    targets = [(document.parent / target) for target in _LINK.findall(document.read_text())]
    assert [str(target) for target in targets if not target.exists()] == []


def test_there_are_documents() -> None:
    """The pattern above finds something to look at."""
    assert ROOT / "README.md" in _DOCUMENTS
    assert len(_DOCUMENTS) > 10
