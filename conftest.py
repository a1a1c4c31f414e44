"""Runs every code block of the README and the docs: Python as it stands, and our own commands in a shell."""

from tests.support.documents import DOCUMENTS

pytest_collect_file = DOCUMENTS.pytest()
