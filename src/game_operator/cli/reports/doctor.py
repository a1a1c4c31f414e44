"""How the checks of a doctor look to people, of the set-up and of a ledger."""

from game_operator.cli.output import say

_LOOK = {
    **dict.fromkeys(("ok", "fine"), ("✓", "green")),
    **dict.fromkeys(("problem", "unreachable", "finding"), ("✗", "red")),
    **dict.fromkeys(("skipped", "not visible"), ("·", "dim")),
    "advice": ("→", ""),
}


def show_check(outcome: str, name: str, found: str, *, todo: str = "", why: str = "", assumed: str = "") -> None:
    """Say what a check found, why it matters, what to do, and what it assumes."""
    mark, style = _LOOK[outcome]
    say(f"{mark} {name}: {found}", style=style)
    if why:
        say(f"    why: {why}", style="dim")
    if todo:
        say(f"    {'advice' if outcome == 'advice' else 'to do'}: {todo}")
    if assumed:
        say(f"    assumed: {assumed}", style="dim")
