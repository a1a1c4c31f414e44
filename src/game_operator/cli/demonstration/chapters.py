"""What the demo's stories are made of: chapters, each held against what it should be."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from game_operator.errors import GameOperatorError

__all__ = ["AmissError", "Chapter", "Scenes", "hold", "played"]

S = TypeVar("S")

#: The titles of a story's chapters, and what is played in each on a stage.
Scenes: TypeAlias = Iterable[tuple[str, Callable[[S], Iterator[str]]]]


@dataclass(frozen=True, slots=True)
class Chapter:
    """
    A step of the demo.

    Attributes:
        title: What was done.
        lines: What came of it.
        problem: Why it is not as it should be; "" if it is.
    """

    title: str
    lines: tuple[str, ...]
    problem: str = ""


class AmissError(Exception):
    """An answer is not what it should be."""


def hold(as_it_should_be: bool, problem: str) -> None:
    """Raise AmissError with *problem* unless all is as it should be."""
    if not as_it_should_be:
        raise AmissError(problem)


def played(scenes: Scenes[S], stage: S) -> Iterator[Chapter]:
    """Yield the chapters one by one, up to the end or to the first one with a problem."""
    for title, scene in scenes:
        lines: list[str] = []
        problem = ""
        try:
            lines.extend(scene(stage))
        except (AmissError, GameOperatorError) as amiss:
            problem = str(amiss)
        yield Chapter(title, tuple(lines), problem)
        if problem:
            return
