"""Runs every code block of the README and the docs: Python as it stands, and our own commands in a shell."""

from tests.support import seeds
from tests.support.documents import DOCUMENTS

pytest_collect_file = DOCUMENTS.pytest()
pytest_addoption = seeds.add_option
pytest_configure = seeds.take_option


def pytest_report_header() -> str:
    """Name the seed of tests with random choices."""
    return seeds.told()
