"""What the user can do to the wallet, and what more they know of it: some scenarios need it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final

from game_operator.certify.engine.steps import Act, NotTried, undone_by_errors
from game_operator.profile import Profile
from game_operator.provider.keys import SigningKey

#: Does something to the wallet under test and returns when it is done. Any: each is given what its scenario names.
Deed = Callable[..., object]


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
        random_operations: How many random operations are tried, 100,000 for a thorough run.
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
    second_url: Any = None  # A wallet of any kind, in process.
    old_key: SigningKey | None = field(default=None, repr=False)
    retired_key: SigningKey | None = field(default=None, repr=False)
    elsewhere: str | None = None
    foreign_instance_id: str | None = None
    random_operations: int | None = None

    def __reduce__(self) -> str:
        raise TypeError("Supplies may hold private keys and are not pickled; build them in each process")

    def values(self) -> dict[str, object]:
        """Return what scenarios may read or ask, by name: no keys."""
        return {name: getattr(self, name) for name in ("foreign_instance_id", "random_operations", "stored_cents")}


#: What is missing, in words.
_IN_WORDS: Final = MappingProxyType(
    {
        "block": "a way to block a player",
        "unblock": "a way to unblock a player",
        "open_account": "a way to open an account",
        "fail": "a way to make the wallet fail",
        "recover": "a way to make it work again",
        "restart": "a way to restart the wallet",
        "distrust": "a way to make the wallet refuse the service's key",
        "trust": "a way to make it accept the key again",
        "later": "a way to let days pass",
        "stored_cents": "a way to read the operator's own balances",
        "second_url": "a second process of the wallet on the same database",
        "old_key": "the key of before a rotation, which the wallet still accepts",
        "retired_key": "a key that the wallet no longer accepts",
        "elsewhere": "an address of this machine that the wallet must not answer",
        "foreign_instance_id": "an instance of another operator's, for a wallet that knows its own",
        "random_operations": "a number of random operations",
        "wire": "real HTTP, and this wallet is in process",
        "batches": "a profile with deposit_batch",
        "nonce": "a time and a nonce beside the signature, and nothing is known of such a scheme",
    }
)


def at_hand(supplies: Supplies, profile: Profile, *, on_wire: bool) -> frozenset[str]:
    """Return by their names all of a scenario's needs that are met."""
    names = {each.name for each in fields(supplies) if getattr(supplies, each.name) is not None}
    return frozenset(names | ({"wire"} if on_wire else set()) | ({"batches"} if profile.deposit_batch else set()))


def needs_told(missing: tuple[str, ...]) -> str:
    """Return what a scenario needs that has not got *missing*."""
    return f"needs {' and '.join(_IN_WORDS[name] for name in missing)}"


def missing_told(missing: tuple[str, ...]) -> str:
    """Return the same, with the names of what can be supplied."""
    words = [name for name in missing if name in {each.name for each in fields(Supplies)}]
    return needs_told(missing) + (f": supply {', '.join(words)}" if words else "")


#: What ends what was done to a wallet.
_UNDONE_BY: Final = MappingProxyType({"block": "unblock", "fail": "recover", "distrust": "trust"})


class WalletActions:
    """
    Does to the wallet what *supplies* can do, and remembers what must be undone.

    Args:
        supplies: What can be done to the wallet.
    """

    def __init__(self, supplies: Supplies) -> None:
        self._supplies = supplies
        self._to_undo: list[tuple[str, tuple[object, ...]]] = []

    def do(self, act: Act) -> None:
        """
        Do to the wallet what a scenario asks for.

        Raises:
            NotTried: It cannot be done to this wallet; ``Undone`` if it was to be, and did not work.
        """
        deed: Callable[..., object] = getattr(self._supplies, act.what)
        if undone_by := _UNDONE_BY.get(act.what):
            self._to_undo.append((undone_by, act.arguments))
        with undone_by_errors(f"{act.what} could not be done"):
            deed(*act.arguments)
        with suppress(ValueError):
            self._to_undo.remove((act.what, act.arguments))

    def undo(self) -> list[str]:
        """Undo what a scenario did to the wallet, if it was broken off before it could; return what did not work."""
        stuck = []
        while self._to_undo:
            what, arguments = self._to_undo.pop()
            deed: Callable[..., object] | None = getattr(self._supplies, what)
            if deed is None:
                continue
            try:
                deed(*arguments)
            except Exception as failed:  # The user's own code may raise anything.
                reason = str(failed) if isinstance(failed, NotTried) else f"{type(failed).__name__}: {failed}"
                stuck.append(f"{what} could not be done: {reason}")
        return stuck
