"""Tests with random choices: the same in every run, another way when asked, and a failure says how to repeat it."""

import pytest

from tests.support import seeds


def test_a_test_prints_its_seed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The same seed draws the same, another another; the output names the option that repeats it."""
    monkeypatch.setattr(seeds, "_shift", [0])
    first, again = seeds.random_of(7).random(), seeds.random_of(7).random()
    monkeypatch.setattr(seeds, "_shift", [5])
    shifted = seeds.random_of(7).random()
    assert first == again != shifted
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == lines[1] == "random numbers of 7 + 0: repeat with --seed=0"
    assert lines[2] == "random numbers of 7 + 5: repeat with --seed=5"


def test_the_run_names_its_seed(pytestconfig: pytest.Config) -> None:
    """And takes one."""
    assert seeds.told() == f"seed: {pytestconfig.getoption('--seed')} (repeat with --seed={seeds._shift[0]})"
