"""Runs every code block of the README and the docs: Python as it stands, and our own commands in a shell."""

from collections.abc import Generator

import pytest
from sybil.integration.pytest import SybilItem

from tests.support.documents import DOCUMENTS

pytest_collect_file = DOCUMENTS.pytest()


@pytest.hookimpl(wrapper=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    """Keep the blocks of a document in one process: a later block uses the names of an earlier one."""
    for item in items:
        if isinstance(item, SybilItem):
            item.add_marker(pytest.mark.xdist_group(item.path.name))
    return (yield)
