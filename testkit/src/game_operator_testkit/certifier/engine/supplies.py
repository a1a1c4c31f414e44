"""What the user can do to the wallet, and what more they know of it: some scenarios need it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Final, get_type_hints

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

    block: Annotated[Deed | None, "a way to block a player"] = None
    unblock: Annotated[Deed | None, "a way to unblock a player"] = None
    open_account: Annotated[Deed | None, "a way to open an account"] = None
    fail: Annotated[Deed | None, "a way to make the wallet fail"] = None
    recover: Annotated[Deed | None, "a way to make it work again"] = None
    restart: Annotated[Deed | None, "a way to restart the wallet"] = None
    distrust: Annotated[Deed | None, "a way to make the wallet refuse the service's key"] = None
    trust: Annotated[Deed | None, "a way to make it accept the key again"] = None
    later: Annotated[Deed | None, "a way to let days pass"] = None
    stored_cents: Annotated[Deed | None, "a way to read the operator's own balances"] = None
    second_url: Annotated[Any, "a second process of the wallet on the same database"] = None  # In process, any wallet.
    old_key: Annotated[SigningKey | None, "the key of before a rotation, which the wallet still accepts"] = field(
        default=None, repr=False
    )
    retired_key: Annotated[SigningKey | None, "a key that the wallet no longer accepts"] = field(
        default=None, repr=False
    )
    elsewhere: Annotated[str | None, "an IP address of this machine whose calls the wallet must refuse"] = None
    foreign_instance_id: Annotated[str | None, "an instance of another operator's, for a wallet that knows its own"] = (
        None
    )
    random_operations: Annotated[int | None, "a number of random operations"] = None

    def __reduce__(self) -> str:
        raise TypeError("Supplies may hold private keys and are not pickled; build them in each process")


_HINTS: Final = get_type_hints(Supplies, include_extras=True)
#: What is missing, in words: what can be supplied, and what cannot.
_SUPPLIES: Final = MappingProxyType({name: str(hint.__metadata__[0]) for name, hint in _HINTS.items()})
_OTHERS: Final = MappingProxyType(
    {
        "wire": "real HTTP, and this wallet is in process",
        "batches": "a profile with deposit_batch",
    }
)
#: The options of ``game-operator certify`` by the names of what they supply.
_OPTIONS: Final = MappingProxyType(
    {name: f"--hook {name}=COMMAND" for name, hint in _HINTS.items() if hint.__origin__ == Deed | None}
    | {
        "second_url": "--second-url URL",
        "old_key": "--old-key FILE",
        "retired_key": "--retired-key FILE",
        "elsewhere": "--elsewhere ADDRESS",
        "foreign_instance_id": "--foreign-instance ID",
        "batches": "--profile FILE with deposit_batch = true",
    }
)


def at_hand(supplies: Supplies, profile: Profile, *, on_wire: bool) -> frozenset[str]:
    """Return by their names all of a scenario's needs that are met."""
    names = {name for name in _SUPPLIES if getattr(supplies, name) is not None}
    return frozenset(names | ({"wire"} if on_wire else set()) | ({"batches"} if profile.deposit_batch else set()))


def needs_told(missing: tuple[str, ...]) -> str:
    """Return what a scenario needs that has not got *missing*."""
    return f"needs {' and '.join((_SUPPLIES | _OTHERS)[name] for name in missing)}"


def options_for(missing: tuple[str, ...]) -> str:
    """Return the options of ``game-operator certify`` that supply *missing*; "" if none does."""
    return " ".join(_OPTIONS[name] for name in missing if name in _OPTIONS)


def missing_told(missing: tuple[str, ...]) -> str:
    """Return what a scenario needs that has not got *missing*, with the names of what can be supplied."""
    names = [name for name in missing if name in _SUPPLIES]
    return needs_told(missing) + (f": supply {', '.join(names)}" if names else "")
