"""Tables of two sides that do not depend on each other, without their product."""

from collections.abc import Sequence

import pytest


def spread(
    places: Sequence[pytest.ParameterSet], cases: Sequence[pytest.ParameterSet], *, everywhere: int = 1
) -> list[pytest.ParameterSet]:
    """
    Return rows for ``parametrize``: all *cases* at the first of *places*, and the first few at each of the others.

    For a rule that stands in one place of the code and is asked for from several: the cases try the rule, and the
    places that it is asked.

    Args:
        places: Where the rule is asked for; each a ``pytest.param`` with an id.
        cases: What it decides about, likewise.
        everywhere: How many cases each place gets.
    """
    first, *others = places
    rows = [(first, case) for case in cases] + [(place, case) for place in others for case in cases[:everywhere]]
    return [pytest.param(*place.values, *case.values, id=f"{place.id}-{case.id}") for place, case in rows]
