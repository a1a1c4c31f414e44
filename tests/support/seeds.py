"""
Seeds of tests with random choices: the same in every run, unless ``--seed`` shifts them all.

Whatever a test prints is shown when it fails, so each failure names the ``--seed`` that repeats it. Tests of the games'
statistics keep their seeds: what they hold of ten thousand draws is true of nearly every seed, and not of each.
"""

from random import Random

import pytest

_shift = [0]


def add_option(parser: pytest.Parser) -> None:
    """Add ``--seed``."""
    parser.addoption("--seed", type=int, default=0, help="shift the seeds of all tests with random choices")


def take_option(config: pytest.Config) -> None:
    """Use the seed that the run was given."""
    _shift[0] = config.getoption("--seed")


def told() -> str:
    """Return the line that the report begins with."""
    return f"seed: {_shift[0]} (repeat with --seed={_shift[0]})"


def random_of(seed: int) -> Random:
    """Return the random numbers of *seed*, shifted as the run was told; the test's output says how to repeat them."""
    print(f"random numbers of {seed} + {_shift[0]}: repeat with --seed={_shift[0]}")  # noqa: T201
    return Random(seed + _shift[0])
