"""What to fix first, in the same lines for each command that tests a wallet."""

from typing import Final

from game_operator.cli.output import say_wrapped

#: Lines of a sentence, so that all of it is one screen.
_LINES: Final = 3


def show_fix_first(*, risk: str, means: str, fix: str, seen: str, most: int = 2) -> None:
    """
    Print what a mistake means, by which money is at *risk* or "", how to fix it, and where it is *seen*.

    The last of these takes as many lines as *most* says.
    """
    at_risk = f" ({risk})" if risk else ""
    say_wrapped(f"What it means{at_risk}: {means}", indent="  ", style="red", most=_LINES)
    say_wrapped(f"How to fix it: {fix}", indent="  ", style="bold", most=_LINES + 1)
    say_wrapped(f"Seen in {seen}", indent="  ", most=most)
