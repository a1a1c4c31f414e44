"""How far a run is, shown on stderr while it goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from game_operator.cli.output import console, visible

__all__ = ["progress"]

#: Shows what is under way, how much of it is done, and of how much.
ShowProgress: TypeAlias = Callable[[str, int, int], None]


@contextmanager
def progress() -> Iterator[ShowProgress]:
    """Yield what shows on stderr, if that is a terminal, how far a run is."""
    screen = console(error=True)
    if not screen.is_terminal:
        yield lambda *_: None
        return
    about_it = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True))
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn(), about_it)
    with Progress(*columns, console=screen, transient=True, expand=True) as bar:
        task = bar.add_task("…", total=None)

        def show(about: str, completed: int, total: int) -> None:
            bar.update(task, completed=completed, total=total, description=visible(about))

        yield show
