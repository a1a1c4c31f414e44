"""What each verdict, and each other kind of finding, means, and what a person does about it."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

#: What no reconciliation can see, in a sentence for every report.
UNSEEN: Final = (
    "Lost claims are not in this report: free bets and jackpots have no bet at the provider, so a claim that never "
    "came cannot be looked up. Compare them with the provider's own records."
)


class Advice(NamedTuple):
    """What a verdict means, and what to do about it."""

    means: str
    todo: str


@cache
def advices() -> Mapping[str, Advice]:
    """Return the advice for each verdict and each other kind of finding, by its name."""
    texts = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {name: Advice(**text) for name, text in texts.items()}
