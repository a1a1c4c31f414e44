"""Runs every code block of the README and the docs: Python as it stands, and our own commands in a shell."""

import gc
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import dealing, lanes, scratch, seeds
from tests.support.documents import DOCUMENTS
from tests.support.servers import look_often

pytest_plugins = ("tests.support.fixtures",)
pytest_collect_file = DOCUMENTS.pytest()
_THRESHOLDS = gc.get_threshold()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--seed``, ``--lane``, ``--hand`` and ``--record-seconds``."""
    seeds.add_option(parser)
    lanes.add_option(parser)
    dealing.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Take them, and be quick about the tests."""
    scratch.keep_in_memory()
    seeds.take_option(config)
    lanes.configure(config)
    config.pluginmanager.register(dealing.Dealing(config), "dealing")
    look_often()
    gc.set_threshold(100_000)


def pytest_collection_finish() -> None:
    """Collect garbage as usual from now on, and not among the tests, which stay."""
    gc.set_threshold(*_THRESHOLDS)
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Collect what the tests have left once, and not five times, as pytest does in search of what nobody closed."""
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that are another process's, or not in the lane."""
    is_anothers = _dealing(config).is_anothers(collection_path)
    return is_anothers or lanes.is_left_out(collection_path, config.getoption("--lane")) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave cases to `make torture` that are not drawn, and tests to other lanes and processes."""
    lanes.draw(items, config.getoption("--seed"))
    lanes.keep_the_lane(config, items)
    _dealing(config).keep_own(items)


def _dealing(config: pytest.Config) -> dealing.Dealing:
    plugin = config.pluginmanager.get_plugin("dealing")
    assert isinstance(plugin, dealing.Dealing)
    return plugin


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Watch a test with its fixtures."""
    with lanes.watched():
        return (yield)


def pytest_report_header() -> str:
    """Name the seed of tests with random choices."""
    return seeds.told()
