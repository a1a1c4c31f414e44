"""
The games of the service as the operator's other programs need them: current, compared, and kept (spec §2.5 to §2.7).

What is read never waits: it is the last good list. A refresh asks the service, compares, and stores.
"""

import inspect
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from game_operator.backoffice.catalogue.state import (
    CatalogueChange,
    CatalogueState,
    changes_between,
    check_ids,
    decode_state,
    why_absurd,
)
from game_operator.backoffice.catalogue.unknown_instances import UnknownInstances
from game_operator.errors import ConfigurationError, InstancesUnavailableError, LedgerUnavailableError, shown
from game_operator.ledger.engine.process_safety import Forkable, notify_of_forks
from game_operator.models import GameInfo, GameInstance
from game_operator.protocol.http import service_name

if TYPE_CHECKING:
    from game_operator.backoffice.journal import Journal
    from game_operator.client.sync import OperatorClient
    from game_operator.ledger import SqlLedger
    from game_operator.models import MovingCall

_LOG = logging.getLogger("game_operator.backoffice")
_MOST_CHANGES: Final = 1_000
_MOST_TRIES: Final = 100
#: How long the end of ``following`` waits for a refresh that is under way.
_LONGEST_END_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class HeldList:
    """
    A list of games that is probably an error of the service, and was not applied.

    Attributes:
        reason: Why, as a sentence.
        changes: What would have changed; nothing for a first list.
    """

    reason: str
    changes: tuple[CatalogueChange, ...]


class Catalogue(Forkable):
    """
    The service's games, refreshed, compared and kept (spec §2.5 to §2.7, §4.2).

    Pass it to ``WebhookReceiver(instances=catalogue)``: an instance that was ever seen is accepted, and an unknown one
    causes a refresh. Iterate over it for its games. Threads may share it.

    Args:
        client: Asks the service. It stays yours to close.
        store: A ``SqlLedger`` in whose database it keeps what was seen; None keeps it in memory.
        most_gone: The share of the games, and of the instances, that may disappear at once: 0 to 1. A list in which
            more would be gone is not applied.
        min_refresh_seconds: How far apart the refreshes are that unknown instances cause.
        wait_seconds: How long calls for unknown instances wait for such a refresh, in threads, from its beginning. An
            event loop never waits.
        clock: The time in seconds, which never goes back; else ``time.monotonic``.

    Raises:
        TypeError: An argument is of another kind.
        ConfigurationError: A number is out of its range, or what is stored is damaged or another service's.
    """

    def __init__(
        self,
        client: "OperatorClient",
        store: "SqlLedger | None" = None,
        *,
        most_gone: Decimal = Decimal("0.30"),
        min_refresh_seconds: float = 60.0,
        wait_seconds: float = 0.25,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._client = _checked_client(client)
        self._journal = _journal_of(store)
        self._most_gone = _checked_share(most_gone)
        self._clock = clock or (lambda: time.monotonic())
        self._service = service_name(client.base_url, client.operator_id)
        self._unknown = UnknownInstances(
            self._is_refreshed,
            self._clock,
            min_refresh_seconds=_seconds("min_refresh_seconds", min_refresh_seconds),
            wait_seconds=_seconds("wait_seconds", wait_seconds),
        )
        self._one_at_a_time = threading.RLock()
        #: What was stored when it was last read. The state is replaced as a whole, so readers need no lock.
        self._body: bytes | None = None
        self._state = CatalogueState(service=self._service)
        self._read()
        self._changes: tuple[CatalogueChange, ...] = ()
        self._held: HeldList | None = None
        self._error: Exception | None = None
        notify_of_forks(self)

    @property
    def games(self) -> tuple[GameInfo, ...]:
        """The games of the last good list."""
        return self._state.games

    @property
    def instances(self) -> frozenset[str]:
        """The ids of all instances ever seen, gone ones too."""
        return frozenset(self._state.instances)

    @property
    def fetched_at_millis(self) -> int | None:
        """When the service answered the last good list, in Unix milliseconds; None until it has."""
        return self._state.at_millis

    @property
    def held(self) -> HeldList | None:
        """The last answer, if it was a list that was not applied, with its ``reason`` and ``changes``; else None."""
        return self._held

    @property
    def error(self) -> Exception | None:
        """What the last refresh raised; None if it got an answer."""
        return self._error

    @property
    def changes(self) -> tuple[CatalogueChange, ...]:
        """The changes that this process has seen, the latest first; at most 1,000."""
        return self._changes

    def __iter__(self) -> Iterator[GameInfo]:
        return iter(self.games)

    def instance(self, instance_id: str) -> GameInstance | None:
        """Return an instance; one that is gone as it was last seen, but switched off; None for an unknown one."""
        return self._state.instances.get(instance_id)

    def currency_of(self, call: "MovingCall") -> str | None:
        """Return the currency of the instance that *call* names (spec §2.7); None if it names no known one."""
        instance = self.instance(call.instance_id) if call.instance_id is not None else None
        return instance.bet_config.currency if instance else None

    def refresh(self, *, most_gone: Decimal | None = None) -> list[CatalogueChange]:
        """
        Ask the service, and return what differs from the last good list; nothing if there was none.

        A list that is ``held`` changes nothing. When this raises, the last good list stays.

        Args:
            most_gone: Another share that may disappear, this time: 1 applies whatever the service answers.

        Raises:
            ApiError: The service said no, or an id stands twice in its answer.
            TransportError: The service did not answer.
            ConfigurationError: *most_gone* is no share, or what is stored cannot be read.
            LedgerUnavailableError: The database cannot be used.
        """
        share = self._most_gone if most_gone is None else _checked_share(most_gone)
        with self._one_at_a_time:
            try:
                return self._refresh(share)
            except Exception as failed:
                self._error = failed
                raise

    def watch(
        self, every_seconds: float = 60.0, *, stop: threading.Event | None = None
    ) -> Iterator[list[CatalogueChange]]:
        """
        Refresh at once and then every so many seconds; yield after each what has changed.

        A refresh that fails yields no change, and ``error`` says why.

        Args:
            every_seconds: The pause between two refreshes.
            stop: Ends the watch when it is set; None watches for ever.
        """
        pause, stop = _seconds("every_seconds", every_seconds), stop or threading.Event()
        while not stop.is_set():
            try:
                changes = self.refresh()
            except Exception as failed:
                _LOG.warning("the games could not be fetched: %s", failed, extra={"event": "catalogue.fetch_failed"})
                changes = []
            yield changes
            stop.wait(pause)

    @contextmanager
    def following(self, every_seconds: float = 60.0) -> Iterator[None]:
        """
        Refresh as ``watch`` does, in a thread, while the block runs: it waits for no answer of the service.

        At the end of the block a refresh that is under way has 5 seconds. ``changes`` has what was seen.
        """
        pause, stop = _seconds("every_seconds", every_seconds), threading.Event()

        def follow() -> None:
            for _ in self.watch(pause, stop=stop):
                pass

        thread = threading.Thread(target=follow, name="game-operator-catalogue", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_LONGEST_END_SECONDS)

    def __contains__(self, instance_id: object) -> bool:
        """
        Return whether an instance is this operator's: for a receiver, and without a long wait.

        An unknown instance causes a refresh. The answer is False once a list that was asked for since lacks it.

        Raises:
            InstancesUnavailableError: There is no such list yet.
        """
        if not isinstance(instance_id, str):
            return False
        if instance_id in self._state.instances:
            return True
        is_settled = self._unknown.is_settled(instance_id)
        if instance_id in self._state.instances:
            return True
        if is_settled:
            return False
        raise InstancesUnavailableError(
            f"The instance {shown(instance_id)} is unknown, and the list of games has not been fetched since.",
            remedy="The service may send the call again. If this goes on, look at the catalogue's error and held.",
        )

    __call__ = __contains__

    def after_fork(self, *, in_child: bool) -> None:
        """With *in_child*, go on without the locks and threads of the parent."""
        if in_child:
            self._one_at_a_time = threading.RLock()
            self._unknown.start_afresh()

    def _is_refreshed(self) -> bool:
        self.refresh()
        return self.held is None

    def _refresh(self, most_gone: Decimal) -> list[CatalogueChange]:
        began, before = self._clock(), self._state
        games = self._client.fetch_games()
        check_ids(games)
        at_millis = time.time_ns() // 1_000_000
        self._held = self._applied(games, at_millis, most_gone)
        self._error = None
        if self._held is not None:
            _LOG.warning("a list of games is held: %s", self._held.reason, extra={"event": "catalogue.held"})
        else:
            self._unknown.looked(began)
        if before.at_millis is None:
            return []
        changes = changes_between(before.games, self._state.games, at_millis=self._state.at_millis or at_millis)
        self._changes = (*reversed(changes), *self._changes)[:_MOST_CHANGES]
        return changes

    def _applied(self, games: list[GameInfo], at_millis: int, most_gone: Decimal) -> HeldList | None:
        """Make *games* the last good list, which other processes may have changed; or return why not."""
        for _ in range(_MOST_TRIES):
            self._read()
            reason = why_absurd(self._state, games, most_gone)
            if reason:
                is_first = self._state.at_millis is None
                changes = [] if is_first else changes_between(self._state.games, games, at_millis=at_millis)
                return HeldList(reason, tuple(changes))
            if self._kept(self._state.after(games, at_millis)):
                return None
        problem = f"The catalogue in the ledger's database was replaced by other programs {_MOST_TRIES} times."
        raise LedgerUnavailableError(problem, remedy="Try again later.")

    def _read(self) -> None:
        """Read the state that is stored, which other processes may have changed."""
        if self._journal is None:
            return
        body = self._journal.document(self._name)
        if body is None or body != self._body:  # Of thousands of games, reading takes a good part of a second.
            self._state, self._body = decode_state(body, service=self._service), body

    def _kept(self, state: CatalogueState) -> bool:
        """Store *state*, and return True; return False if another process was quicker."""
        if self._journal is not None:
            body = state.model_dump_json().encode()
            if not self._journal.keep_document(self._name, body, before=self._body):
                return False
            self._body = body
        self._state = state
        return True

    @property
    def _name(self) -> str:
        return f"catalogue:{self._service}"


def _checked_client(client: "OperatorClient") -> "OperatorClient":
    fetch = getattr(client, "fetch_games", None)
    if fetch is None:
        raise TypeError(f"client must be an OperatorClient, not {type(client).__name__}")
    if inspect.iscoroutinefunction(fetch):
        raise TypeError("client is async: pass an OperatorClient. A catalogue asks in a thread, beside asyncio too")
    return client


def _journal_of(store: "SqlLedger | None") -> "Journal | None":
    if store is None:
        return None
    from game_operator.backoffice.journal import Journal  # Loads what databases need.
    from game_operator.ledger import SqlLedger

    if not isinstance(store, SqlLedger):
        raise TypeError(f"store must be None or a SqlLedger, not {type(store).__name__}")
    return Journal(store)


def _checked_share(share: Decimal) -> Decimal:
    if not isinstance(share, Decimal):
        raise TypeError(f"most_gone must be a Decimal, such as Decimal('0.30'), not {type(share).__name__}")
    if not (share.is_finite() and 0 <= share <= 1):
        raise ConfigurationError(f"most_gone is {share}. Pass a share from 0 to 1.", setting="most_gone")
    return share


def _seconds(name: str, value: Any) -> float:  # Anything the user passes.
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return value
    raise ConfigurationError(f"{name} must be a number of seconds from 0, not {shown(value)}.", setting=name)
