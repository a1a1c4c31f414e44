"""What the user can do to the wallet, and what more they know of it: some scenarios need it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final

from game_operator.profile import Profile
from game_operator_testkit.provider.keys import SigningKey

#: Does something to the wallet under test and returns when it is done. Any: each is given what its scenario names, and
#: ``stored_cents`` returns a number.
Deed = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplies:
    """
    What some scenarios need beside two players and a key; each is skipped without.

    Attributes:
        block: Blocks the player with the id that it is given: no more bets.
        unblock: Lets that player bet again.
        open_account: Opens an account for an unknown player_id, with an opening balance in cents.
        fail: Makes the wallet fail, as if its database were down, until ``recover``: it should answer SYSTEM_ERROR.
        recover: Makes it work again.
        restart: Kills the wallet's process and starts it again; it keeps its database.
        distrust: Makes the wallet refuse the service's key, as a wrong configuration would, until ``trust``.
        trust: Makes it accept the key again.
        later: Lets so many days pass for the wallet, its clock or its stored times.
        stored_cents: Returns a player's balance in cents, as the operator's own table has it.
        second_url: Another process of the wallet, on the same database. In process: another wallet.
        old_key: A key that the wallet accepts beside the service's, as during a rotation.
        retired_key: One that it accepted before a rotation, and no longer accepts.
        elsewhere: An address of this machine that the wallet must not answer, such as ``127.0.0.2``.
        foreign_instance_id: An instance of another operator's.
        random_operations: How many random operations are tried, 100,000 for a thorough run; None for 1,500, or as many
            as take about five seconds.
    """

    block: Deed | None = None
    unblock: Deed | None = None
    open_account: Deed | None = None
    fail: Deed | None = None
    recover: Deed | None = None
    restart: Deed | None = None
    distrust: Deed | None = None
    trust: Deed | None = None
    later: Deed | None = None
    stored_cents: Deed | None = None
    second_url: Any = None  # In process, any wallet.
    old_key: SigningKey | None = field(default=None, repr=False)
    retired_key: SigningKey | None = field(default=None, repr=False)
    elsewhere: str | None = None
    foreign_instance_id: str | None = None
    random_operations: int | None = None

    def __reduce__(self) -> str:
        raise TypeError("Supplies may hold private keys and are not pickled; build them in each process")


#: The options of ``game-operator certify`` that supply something; all else is a hook.
_OPTIONS: Final = MappingProxyType(
    {
        "second_url": "--second-url",
        "old_key": "--old-key",
        "retired_key": "--retired-key",
        "elsewhere": "--elsewhere",
        "foreign_instance_id": "--foreign-instance",
        "batches": "--profile",
        "wire": "",
        "processes": "--second-url",
    }
)
#: What is needed beside supplies.
_IN_WORDS: Final = MappingProxyType(
    {
        "wire": "real HTTP, and this wallet is in process",
        "batches": "a profile with deposit_batch",
        "processes": "real HTTP or a second_url, and this wallet is in process",
    }
)


def at_hand(supplies: Supplies, profile: Profile, *, on_wire: bool) -> frozenset[str]:
    """Return by their names all of a scenario's needs that are met."""
    names = {each.name for each in fields(supplies) if getattr(supplies, each.name) is not None}
    more = {"wire": on_wire, "batches": profile.deposit_batch, "processes": on_wire or "second_url" in names}
    return frozenset(names | {name for name, is_met in more.items() if is_met})


def options_for(missing: Sequence[str]) -> list[str]:
    """Return the options of ``game-operator certify`` that supply *missing*."""
    return sorted({_OPTIONS.get(name, "--hook") for name in missing} - {""})


def missing_told(missing: Sequence[str]) -> str:
    """Return what a scenario needs that has not got *missing*: names of supplies, and the options for them."""
    told = f"needs {' and '.join(_IN_WORDS.get(name, name) for name in missing)}"
    options = ", ".join(options_for(missing))
    return f"{told} ({options})" if options else told
