"""The licences of what users install: listed, up to date, and none that nobody decided about."""

from importlib.metadata import distribution

import pytest

from tools.licences import PAGE, Package, licence_of, packages, page, refused
from tools.release import ROOT, runtime_extras


def _package(name: str, licence: str) -> Package:
    return Package(name, "1.0", licence, "always")


def test_the_page_is_up_to_date() -> None:
    """Every package of an installation with extras, in the locked version. Else run: python -m tools.licences."""
    assert PAGE.read_text() == page(PAGE.read_text())


def test_the_page_would_show_a_change() -> None:
    """The check above can fail."""
    text = PAGE.read_text()
    assert page(text.replace("| MPL-2.0 |", "| MIT |")) == page(text) != text.replace("| MPL-2.0 |", "| MIT |")


def test_no_licence_comes_in_without_a_decision() -> None:
    """Each declares one that the page explains."""
    assert len(packages()) > 40
    assert {package.name: refused(package) for package in packages() if refused(package)} == {}


@pytest.mark.parametrize(
    ("package", "licences"),
    [
        pytest.param(_package("x", "MIT"), set(), id="allowed"),
        pytest.param(_package("x", "Apache-2.0 AND MIT"), set(), id="two that are allowed"),
        pytest.param(_package("x", "MIT AND GPL-3.0-only"), {"GPL-3.0-only"}, id="one of two is not"),
        pytest.param(_package("psycopg", "LGPL-3.0-only"), set(), id="allowed for one package"),
        pytest.param(_package("x", "LGPL-3.0-only"), {"LGPL-3.0-only"}, id="and for no other"),
        pytest.param(_package("x", "unknown"), {"unknown"}, id="no licence"),
    ],
)
def test_what_may_come_in(package: Package, licences: set[str]) -> None:
    """A licence that is not on the list is named, also as a part of an expression."""
    assert refused(package) == licences


def test_what_a_package_declares_is_read_in_its_forms() -> None:
    """An SPDX expression, a spelling of its own, a classifier, or what a person has read."""
    read = {name: licence_of(name, distribution(name)) for name in ("typer", "s3transfer", "jinja2", "uvloop")}
    assert read == {"typer": "MIT", "s3transfer": "Apache-2.0", "jinja2": "BSD-3-Clause", "uvloop": "Apache-2.0 OR MIT"}


def test_every_extra_but_those_for_tests_is_looked_at() -> None:
    """A new extra is on the page and in the SBOM without being named again."""
    assert {"aws", "otel", "postgres", "serve"} <= set(runtime_extras())
    assert not {"all", "testkit"} & set(runtime_extras())
    assert "psycopg" in {package.name for package in packages()}
    assert (ROOT / "requirements" / "dev.txt").read_text().count("psycopg==") == 1
