"""How changes of the games look: a line each for people, a document for programs."""

from decimal import Decimal
from typing import TYPE_CHECKING

from game_operator.cli.output import answer, counted, remark, say, when
from game_operator.errors import one_line

if TYPE_CHECKING:
    from game_operator.backoffice.catalogue import Catalogue, CatalogueChange
    from game_operator.models import BetConfig, GameInfo

#: Changes of a held list that are shown to a person.
_MOST_HELD = 20
#: Of a text in a line.
_LONGEST = 80
_LIMITS = ("min_wager", "default_wager", "max_wager", "max_win", "currency")


def show_changes(catalogue: "Catalogue", changes: "list[CatalogueChange]", *, error: str = "") -> None:
    """
    Show *changes*, what is held, and an *error* of the last look.

    Args:
        catalogue: Where they come from.
        changes: What has changed.
        error: Why the last look failed; "" if it did not.
    """
    answer(_document(catalogue, changes) | ({"error": error} if error else {}))
    for change in changes:
        say(f"{when(change.at_millis)} UTC  {sentence(change)}")
    if catalogue.held is not None:
        say(f"Held for a person: {catalogue.held.reason} Nothing of this list is applied.", style="yellow")
        _show_held(list(catalogue.held.changes))
        say("If that is right, allow that share: `game-operator games --changes --most-gone SHARE`; 1 allows all.")
    if error:
        remark(f"The games could not be fetched: {error}", style="red")


def _show_held(changes: "list[CatalogueChange]") -> None:
    """Show what a person is asked to accept: first what would be gone, for that is why it is held."""
    changes = sorted(changes, key=lambda change: change.after is not None)
    for change in changes[:_MOST_HELD]:
        say(f"  would be: {sentence(change)}")
    if len(changes) > _MOST_HELD:
        say(f"  and {counted(len(changes) - _MOST_HELD, 'more change')}: --json lists all")


def size_of(games: "tuple[GameInfo, ...]") -> str:
    """Return how many games and instances there are, in words."""
    return f"{counted(len(games), 'game')}, {counted(sum(len(game.instances) for game in games), 'instance')}"


def _document(catalogue: "Catalogue", changes: "list[CatalogueChange]") -> dict[str, object]:
    return {
        "changes": [change.as_dict() for change in changes],
        "games": len(catalogue.games),
        "instances": sum(len(game.instances) for game in catalogue.games),
        "fetched_at_millis": catalogue.fetched_at_millis,
        "held": _held(catalogue),
    }


def _held(catalogue: "Catalogue") -> dict[str, object] | None:
    held = catalogue.held
    if held is None:
        return None
    return {"reason": held.reason, "changes": [change.as_dict() for change in held.changes]}


def sentence(change: "CatalogueChange") -> str:
    """Return *change* for a person, in one line; amounts in currency units."""
    before, after, instance = change.before, change.after, f"{change.instance_id} of {change.game_id}"
    match str(change.kind):
        case "game_added":
            return f"game {after.id} added: {after.name}, {after.status}{_instances(after)}"
        case "game_gone":
            return f"game {before.id} gone: {before.name}{_instances(before)}"
        case "instance_added":
            limits = after.bet_config
            about = f"{_amount(limits.min_wager)} to {_amount(limits.max_wager)} {limits.currency}"
            return f"instance {instance} added: {about}, {_switched(after.active)}"
        case "instance_gone":
            return f"instance {instance} gone"
        case "instance_switched":
            return f"instance {instance} switched {_switched(after)}"
        case "limits_changed":
            return f"limits of {instance}: {_limits(before, after)}"
        case "instance_details_changed":
            return f"details of instance {instance}: {_details(before, after)}"
        case "game_details_changed":
            return f"details of game {change.game_id}: {_details(before, after)}"
        case "rtp_changed":
            return f"RTP of {change.game_id}: {_amount(before)} → {_amount(after)}"
    return f"status of {change.game_id}: {before} → {after}"


def _details(before: dict[str, object], after: dict[str, object]) -> str:
    names = dict.fromkeys((*after, *before))
    return ", ".join(f"{name} {_text(before.get(name))} → {_text(after.get(name))}" for name in names)


def _text(value: object) -> str:
    return "none" if value is None else one_line(str(value), _LONGEST)


def _instances(game: "GameInfo") -> str:
    return f", with {', '.join(each.id for each in game.instances)}" if game.instances else ""


def _switched(active: bool) -> str:
    return "on" if active else "off"


def _limits(before: "BetConfig", after: "BetConfig") -> str:
    values = ((name, getattr(before, name), getattr(after, name)) for name in _LIMITS)
    changed = [f"{name.replace('_', ' ')} {_amount(old)} → {_amount(new)}" for name, old, new in values if old != new]
    return ", ".join(changed) or "a field that this version does not know"


def _amount(value: Decimal | str | None) -> str:
    return "none" if value is None else format(value, "f") if isinstance(value, Decimal) else value
