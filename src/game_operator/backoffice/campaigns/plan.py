"""
A plan: who gets what, what it adds up to, and the digest by which it is the same plan again.

Everything is checked before anything is kept or sent, and all that is wrong is reported at once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from game_operator.backoffice.campaigns.grants import Grant, limit_broken_by, problem_of_player
from game_operator.backoffice.campaigns.players import Asked, Players, Problem, rows_of
from game_operator.errors import CampaignRefusedError, shown
from game_operator.models import GameInstance
from game_operator.money import amount_from_cents

T = TypeVar("T")
#: Returns which of these players are known, or None if that cannot be said.
KnownPlayers = Callable[[Collection[str]], "set[str] | None"]

#: How many problems are listed; the others are counted.
MOST_PROBLEMS: Final = 100
_PAGE: Final = 2_000
#: Changes when the digest of the same grants would.
_FORMAT: Final = b"game-operator campaign 1\n"


class Terms(NamedTuple):
    """What a player gets whose row says nothing else; None must be said by each row."""

    instance_id: str | None = None
    count: int | None = None  # type: ignore[assignment]  # The spec's name; tuple.count is of no use here.
    wager_amount_cents: int | None = None
    expire_duration_millis: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPlan:
    """
    The plan of a campaign, frozen.

    Attributes:
        name: The campaign.
        digest: SHA-256 over all grants, in hexadecimal; the same for the same grants in any order.
        grants: How many grants it has.
        exposure_cents: The sum of count times wager. It is what is staked for the players, and not the most that they
            can win.
        currency: The currency of all its instances.
        players_checked: Whether every player id was looked up in the ledger. False if the ledger cannot tell.
        is_new: False if the same plan was there already.
    """

    name: str
    digest: str
    grants: int
    exposure_cents: int
    currency: str
    players_checked: bool
    is_new: bool = True


class Draft(NamedTuple):
    """A plan and its grants."""

    plan: CampaignPlan
    grants: list[Grant]


def refusal(problems: list[Problem]) -> CampaignRefusedError:
    """Return the error for rows that cannot be granted."""
    listed, count = sorted(problems)[:MOST_PROBLEMS], len(problems)
    some = " ".join(f"Line {line}: {text}" for line, text in listed[:3])
    more = f" And {count - 3} more." if count > 3 else ""
    return CampaignRefusedError(
        f"{count} of the rows cannot be granted, so nothing was planned or sent. {some}{more}",
        remedy="Fix them, and plan again. `problems` of this error, and the command's output, list up to 100 of them.",
        problems=listed,
        problem_count=count,
    )


def draw_up(
    players: Players,
    *,
    campaign: str,
    terms: Terms,
    instances: Mapping[str, GameInstance],
    known: KnownPlayers,
) -> Draft:
    """Read *players*, and check all of them; raise CampaignRefusedError with all that is wrong."""
    problems = list[Problem]()
    grants, lines, checked = list[Grant](), dict[str, int](), True
    for page in _pages(_grants(rows_of(players), campaign, terms, instances, problems), _PAGE):
        there = known({grant.player_id for _, grant in page})
        checked = checked and there is not None
        for line, grant in page:
            first = lines.setdefault(grant.key, line)
            if first != line:
                text = f"The player and the instance are those of line {first}: a player gets one grant on each."
                problems.append(Problem(line, text))
            if there is not None and grant.player_id not in there:
                problems.append(Problem(line, f"The ledger knows no player {shown(grant.player_id)}."))
            grants.append(grant)
    if problems:
        raise refusal(problems)
    if not grants:
        raise CampaignRefusedError("There are no players. Nothing was planned or sent.")
    plan = CampaignPlan(
        name=campaign,
        digest=_digest(grants),
        grants=len(grants),
        exposure_cents=sum(grant.exposure_cents for grant in grants),
        currency=_currency_of({grant.instance_id for grant in grants}, instances),
        players_checked=checked,
    )
    return Draft(plan, grants)


def _currency_of(instance_ids: Iterable[str], instances: Mapping[str, GameInstance]) -> str:
    """Return the one currency of these instances: amounts of several cannot be summed up or capped."""
    currency, *others = sorted({instances[each].bet_config.currency for each in instance_ids})
    if others:
        raise CampaignRefusedError(
            f"The instances of this plan have several currencies: {', '.join(map(shown, (currency, *others)))}. "
            "Nothing was planned or sent.",
            remedy="Plan a campaign for each currency.",
        )
    return currency


def _digest(grants: Iterable[Grant]) -> str:
    """Return the SHA-256 of all grants in hexadecimal: of the same grants in any order it is the same."""
    running = sha256(_FORMAT)
    for key, terms in sorted((grant.key, grant.terms) for grant in grants):
        running.update(f"{key}\n{' '.join(map(str, terms))}\n".encode())
    return running.hexdigest()


def _grants(
    rows: Iterable[Asked | Problem],
    campaign: str,
    terms: Terms,
    instances: Mapping[str, GameInstance],
    problems: list[Problem],
) -> Iterator[tuple[int, Grant]]:
    """Yield the grants of the rows that can be made, with their lines; the others go to *problems*."""
    for row in rows:
        if isinstance(row, Problem):
            problems.append(row)
            continue
        values = [own if own is not None else common for own, common in zip(row[2:], terms, strict=True)]
        if text := problem_of_player(campaign, row.player_id) or _problem_of(values, instances):
            problems.append(Problem(row.line, text))
        else:
            yield row.line, Grant(row.player_id, *values)  # type: ignore[arg-type]  # None of them is None.


def _problem_of(values: Sequence[str | int | None], instances: Mapping[str, GameInstance]) -> str:
    instance_id, *numbers = values
    if None in values:
        name = Terms._fields[values.index(None)]
        return f"There is no {name}: neither the row has one, nor the campaign."
    if instance_id not in instances:
        return f"There is no game instance {shown(instance_id)}."
    return limit_broken_by(*numbers)


def _pages(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while page := list(islice(items, size)):
        yield page


def check_exposure(plan: CampaignPlan, most: int | None) -> None:
    """Raise CampaignRefusedError if the exposure of *plan* is above *most* cents."""
    if most is not None and type(most) is not int:
        raise TypeError(f"max_exposure_cents must be whole cents, not {type(most).__name__} {shown(most)}")
    if most is not None and plan.exposure_cents > most:
        raise CampaignRefusedError(
            f"The exposure is {amount_from_cents(plan.exposure_cents)} {plan.currency}, and the cap is "
            f"{amount_from_cents(most)}. Nothing was planned or sent.",
            remedy="Grant less, or raise max_exposure_cents (--max-exposure-cents).",
        )
