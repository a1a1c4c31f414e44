"""
Which services and environments a ledger takes calls from.

One call under two sources is two calls: it debits twice, and both books are sound. So the first withdraw, deposit or
rollback registers its source, and a call of any other is refused until somebody adds that source. Sources are never
removed, so a process needs to see one only once.
"""

from collections.abc import Iterable
from typing import Final, Literal

from game_operator.errors import LedgerError, UnknownSourceError, shown
from game_operator.ledger.engine.tables import CLOCK, check_writer, sql_texts
from game_operator.ledger.steps import Execute, Rows, Steps
from game_operator.models.webhooks import problem_of_id

_MOST_CHARACTERS: Final = 256
#: Sources that this process has inserted into an SQLite file: in a transaction of the caller's, nothing shows whether
#: a row was committed or is the caller's own.
_INSERTED: Final[set[tuple[str, str]]] = set()


def checked_id(value: str, what: str) -> str:
    """Return *value*, which *what* names, if it can be an id; raise TypeError or ValueError if not."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    problem = problem_of_id(value, _MOST_CHARACTERS)
    if problem:
        raise ValueError(f"{what} {problem}, it is {shown(value)}")
    return value


def refusal(source: str, known: Iterable[str]) -> UnknownSourceError:
    """Return the error for a call of *source*, which is not among the *known* ones."""
    names = ", ".join(map(shown, known))
    argument = source if source.replace("-", "").replace("_", "").isalnum() else f"'{shown(source)[1:-1]}'"
    return UnknownSourceError(
        f"The ledger does not know the source {shown(source)}; it knows {names}. The same call under another source "
        "would move money again, so nothing was moved. If the wallet's source= is wrong, correct it. If it is a "
        f"further service or environment, run `game-operator ledger add-source {argument}` once."
    )


class Sources:
    """The sources of the tables with a prefix; *known* are those that this process has seen committed."""

    __slots__ = ("_kind", "_prefix", "joined", "known")

    def __init__(self, kind: Literal["sqlite", "postgres"], prefix: str) -> None:
        self._kind, self._prefix = kind, prefix
        self.known: set[str] = set()
        #: Whether the transactions are the callers', who may have registered a source in them before.
        self.joined: bool = False

    def knows(self, source: str) -> bool:
        """Return whether calls of *source* need no statement."""
        return source in self.known

    def load(self) -> Steps[list[str]]:
        """Return all sources, the oldest first; the transaction is one that has just begun."""
        names = yield from self._stored()
        self.known.update(names)
        return names

    def settle(self, source: str) -> Steps[LedgerError | None]:
        """Register *source* if the ledger knows none yet; return the error if its calls are refused."""
        known = yield from self._stored()
        if source in known:
            if not (yield from self._may_be_rolled_back(source)):
                self.known.add(source)
            return None
        if not known and self._kind == "postgres":
            if not (yield from stands_alone(f"{self._prefix}sources", source)):
                return LedgerError(
                    f"The source {shown(source)} is not registered, and another transaction registers another one at "
                    "this moment. Nothing was moved: repeat the call."
                )
            known = yield from self._stored()  # What was committed before we looked around.
        known = known or (yield from self._register(source))
        return None if source in known else refusal(source, known)

    def add(self, name: str, at_millis: int) -> Steps[None]:
        """Register *name* beside the others; a known one stays as it is."""
        known: list[str] = []
        while name not in known:  # Once more, if another first source was registered while this one waited for it.
            yield Execute(_sql(self._prefix)["add"], (name, at_millis))
            known = yield from self._stored()

    def _stored(self) -> Steps[list[str]]:
        rows: Rows = yield Execute(_sql(self._prefix)["names"], ())
        return [name for (name,) in rows]

    def _may_be_rolled_back(self, source: str) -> Steps[bool]:
        """Return whether the transaction, which is the caller's, may have registered *source* itself."""
        if not self.joined:
            return False
        if self._kind == "sqlite":
            return (self._prefix, source) in _INSERTED
        claims: Rows = yield Execute(_sql(self._prefix)["own_claim"], (f"{self._prefix}sources", source))
        return bool(claims)

    def _register(self, source: str) -> Steps[list[str]]:
        """Register *source* as the first, or the sources of calls that are there already; return those registered."""
        yield from check_writer(self._prefix)
        # A call whose source another transaction was about to register is stored, even if that one was rolled back.
        found = yield from _sources_found(self._prefix)
        none_is_first = _sql(self._prefix)["none_is_first"]
        clock = CLOCK if self._kind == "postgres" else "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
        # Another process that registers the same source now does it for us, so nobody waits.
        alone = "true" if self._kind == "sqlite" else "pg_try_advisory_xact_lock(hashtext(?), 0)"
        topic = () if self._kind == "sqlite" else (f"{self._prefix}register",)
        for name in found or [source]:
            _INSERTED.add((self._prefix, name))
            yield Execute(
                f"INSERT INTO {self._prefix}sources (name, origin, at_millis, is_first) "
                f"SELECT CAST(? AS text), CAST(? AS text), {clock}, {none_is_first} "
                f"WHERE {alone}{'' if found else f' AND {none_is_first}'} ON CONFLICT DO NOTHING",
                (name, "found" if found else "first call", *topic),
            )
        # Somebody may have added another one since we looked.
        return (yield from self._stored()) or [source]


def _sql(prefix: str) -> dict[str, str]:
    return sql_texts(__package__, "sources.sql", prefix=prefix)


def stands_alone(topic: str, value: str) -> Steps[bool]:
    """
    Return whether no other transaction of PostgreSQL claims another *value* for *topic* at this moment.

    Each claims first and looks around then, so that of two at least one sees the other; nobody waits. The claim ends
    with the transaction.
    """
    yield Execute("SELECT pg_try_advisory_xact_lock_shared(hashtext(?), hashtext(?))", (topic, value))
    others: Rows = yield Execute(_sql("")["other_claim"], (topic, value))
    return not others


def _sources_found(prefix: str) -> Steps[list[str]]:
    """Return the sources of the calls and bets that are there."""
    rows: Rows = yield Execute(_sql(prefix)["found"], ())
    return [source for (source,) in rows]
