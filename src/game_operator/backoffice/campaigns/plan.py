"""
A plan: who gets what, what it adds up to, and the digest by which it is the same plan again.

Everything is checked before anything is kept or sent, and all that is wrong is reported at once.
"""

from collections import Counter
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
        exposure_cents: By currency, the sum of count times wager in cents. It is what is staked for the players, and
            not the most that they can win.
        players_checked: Whether every player id was looked up in the ledger. False if the ledger cannot tell.
        is_new: False if the same plan was there already.
        remarks: What does not prevent the campaign and is worth a look, such as an instance that is switched off.
    """

    name: str
    digest: str
    grants: int
    exposure_cents: Mapping[str, int]
    players_checked: bool
    is_new: bool = True
    remarks: tuple[str, ...] = ()


class Draft(NamedTuple):
    """A plan, its grants, and the currency of each instance."""

    plan: CampaignPlan
    grants: list[Grant]
    currencies: dict[str, str]


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
    problems, by_instance, used = list[Problem](), Counter[str](), set[tuple[str, int]]()
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
            by_instance[grant.instance_id] += grant.exposure_cents
            used.add((grant.instance_id, grant.wager_amount_cents))
    if problems:
        raise refusal(problems)
    if not grants:
        raise CampaignRefusedError("There are no players. Nothing was planned or sent.")
    currencies = {instance_id: instances[instance_id].bet_config.currency for instance_id in by_instance}
    exposure = Counter[str]()
    for instance_id, cents in by_instance.items():
        exposure[currencies[instance_id]] += cents
    plan = CampaignPlan(
        name=campaign,
        digest=_digest(grants),
        grants=len(grants),
        exposure_cents=dict(sorted(exposure.items())),
        players_checked=checked,
        remarks=tuple(_remarks(used, instances)),
    )
    return Draft(plan, grants, currencies)


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


def _remarks(used: Iterable[tuple[str, int]], instances: Mapping[str, GameInstance]) -> Iterator[str]:
    """Yield what the service may accept, and players could not use."""
    off = sorted({instance_id for instance_id, _ in used if not instances[instance_id].active})
    if off:
        yield f"Switched off, so that free bets cannot be played there now: {', '.join(map(shown, off[:10]))}."
    for instance_id, cents in sorted(used):
        limits = instances[instance_id].bet_config
        if not limits.min_wager <= amount_from_cents(cents) <= limits.max_wager:
            yield (
                f"A wager of {amount_from_cents(cents)} {limits.currency} is outside the limits of the instance "
                f"{shown(instance_id)}, {limits.min_wager} to {limits.max_wager}."
            )


def _pages(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while page := list(islice(items, size)):
        yield page


def check_exposure(exposure_cents: Mapping[str, int], most: int | Mapping[str, int] | None) -> None:
    """
    Raise CampaignRefusedError if the exposure is above *most*.

    A number is for a plan in one currency: amounts of several are not compared. A mapping caps each currency, and a
    currency that it does not name may have no exposure.
    """
    if most is None:
        return
    if not isinstance(most, Mapping):
        if len(exposure_cents) > 1:
            raise CampaignRefusedError(
                f"The plan has several currencies: {', '.join(exposure_cents)}. One number cannot cap them.",
                remedy="Pass a cap for each, such as {'EUR': 100000}; on the command line, EUR=100000.",
            )
        most = dict.fromkeys(exposure_cents, most)
    if wrong := next((cap for cap in most.values() if type(cap) is not int), None):
        raise TypeError(f"max_exposure_cents must be whole cents, not {type(wrong).__name__} {shown(wrong)}")
    for currency, cents in exposure_cents.items():
        cap = most.get(currency)
        if cap is None and cents:
            raise CampaignRefusedError(
                f"The exposure is {amount_from_cents(cents)} {currency}, and there is no cap for {currency}. "
                "Nothing was planned or sent.",
                remedy=f"Add a cap for it, such as --max-exposure-cents {currency}={cents}, if that is what you want.",
            )
        if cap is not None and cents > cap:
            raise CampaignRefusedError(
                f"The exposure is {amount_from_cents(cents)} {currency}, and the cap is {amount_from_cents(cap)}. "
                "Nothing was planned or sent.",
                remedy="Grant less, or raise max_exposure_cents (--max-exposure-cents).",
            )
