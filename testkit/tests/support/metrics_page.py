"""Reads docs/reference/metrics.md."""

import re
from functools import cache

from tests.support.documents import ROOT

_PAGE = ROOT / "docs" / "reference" / "metrics.md"


@cache
def rows(heading: str, after: str = "") -> list[list[str]]:
    """Return the cells of the first table below *heading*, or below the text *after* in its section."""
    _, _, section = _PAGE.read_text().partition(f"\n## {heading}\n")
    assert section, f"the page has no heading {heading}"
    lines = section.partition(after)[2].splitlines() if after else section.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table = lines[first : lines.index("", first)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def codes(cell: str) -> list[str]:
    """Return what a cell has between backticks."""
    return re.findall(r"`([^`]+)`", cell)


def values_of(attribute: str) -> set[str]:
    """Return the values that the page lists for an attribute."""
    (cell,) = [values for names, values in rows("Attributes") if attribute in codes(names)]
    return set(codes(cell))
