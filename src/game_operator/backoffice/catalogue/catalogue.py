"""
The games of the service as the operator's other programs need them: current, compared, and kept (spec §2.5 to §2.7).

What is read never waits: it is the last good list. A refresh asks the service, compares, and stores.
"""

import inspect
import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from game_operator.backoffice.catalogue.state import (
    CatalogueChange,
    CatalogueState,
    changes_between,
    check_games,
    decode_state,
)
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
#: Unknown instances that are remembered; more than another operator's calls can name in a day.
_MOST_UNKNOWN: Final = 10_000
#: How long the end of ``following`` waits for a refresh that is under way.
_LONGEST_END_SECONDS: Final = 5.0


class Catalogue(Forkable):
    """
    The service's games, refreshed, compared and kept (spec §2.5 to §2.7, §4.2).

    Pass it to ``WebhookReceiver(instances=catalogue)``: an instance that any list had is accepted, and every other one
    is refused until a refresh brings it. Threads may share it.

    Args:
        client: Asks the service. It stays yours to close.
        store: A ``SqlLedger`` in whose database it keeps what was seen; None keeps it in memory.

    Raises:
        TypeError: An argument is of another kind.
        ConfigurationError: What is stored is damaged or another service's.
    """

    def __init__(self, client: "OperatorClient", store: "SqlLedger | None" = None) -> None:
        self._client = _checked_client(client)
        self._journal = _journal_of(store)
        self._service = service_name(client.base_url, client.operator_id)
        self._one_at_a_time = threading.Lock()
        #: What was stored when it was last read. The state is replaced as a whole, so readers need no lock.
        self._body: bytes | None = None
        self._state = CatalogueState(service=self._service)
        self._read()
        self._changes: tuple[CatalogueChange, ...] = ()
        self._error: Exception | None = None
        #: Instances that no list had when they were asked about: since the last refresh began, and before.
        self._asked: set[object] = set()
        self._unknown: dict[object, None] = {}
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
        """
        When the service answered the last good list, in Unix milliseconds; None until it has.

        After a restart it is when the list that is stored was new.
        """
        return self._state.at_millis

    @property
    def error(self) -> Exception | None:
        """What the last refresh raised; None if its list was applied."""
        return self._error

    @property
    def changes(self) -> tuple[CatalogueChange, ...]:
        """The changes that this process has seen, the latest first; at most 1,000."""
        return self._changes

    def instance(self, instance_id: str) -> GameInstance | None:
        """Return an instance; one that is gone as it was last seen, but switched off; None for an unknown one."""
        return self._state.instances.get(instance_id)

    def currency_of(self, call: "MovingCall") -> str | None:
        """Return the currency of the instance that *call* names (spec §2.7); None if it names no known one."""
        instance = self.instance(call.instance_id) if call.instance_id is not None else None
        return instance.bet_config.currency if instance else None

    def __contains__(self, instance_id: object) -> bool:
        """
        Return whether an instance is this operator's, by the lists until now.

        Raises:
            InstancesUnavailableError: It is in no list, and none was fetched since somebody first asked about it.
        """
        if instance_id in self._state.instances:
            return True
        if instance_id in self._unknown and self._state.at_millis is not None:
            return False
        if len(self._asked) < _MOST_UNKNOWN:
            self._asked.add(instance_id)
        raise InstancesUnavailableError(
            f"The list of games was not fetched since a call named the instance {shown(instance_id)}.",
            remedy="The service may send the call again. If this goes on, let the catalogue follow the service "
            "(following()), and look at its error.",
        )

    def refresh(self) -> list[CatalogueChange]:
        """
        Ask the service, and return what differs from the last good list; nothing if there was none.

        When this raises, the last good list stays.

        Raises:
            ApiError: The service said no, or its list cannot be right: it has no instance at all, or an id twice.
            TransportError: The service did not answer.
            ConfigurationError: What is stored cannot be read.
            LedgerUnavailableError: The database cannot be used.
        """
        with self._one_at_a_time:
            asked, self._asked = self._asked, set()
            try:
                changes = self._refresh()
            except Exception as failed:
                self._error = failed
                raise
            self._error = None
            self._unknown.update(dict.fromkeys(asked))
            for oldest in list(self._unknown)[:-_MOST_UNKNOWN]:
                del self._unknown[oldest]
            self._changes = (*reversed(changes), *self._changes)[:_MOST_CHANGES]
            return changes

    @contextmanager
    def following(self, every_seconds: float = 15.0) -> Iterator[None]:
        """
        Refresh at once and then every so many seconds, in a thread, while the block runs.

        ``changes`` has what was seen, and ``error`` why the last refresh failed, which is logged too. At the end of the
        block a refresh that is under way has 5 seconds.

        Args:
            every_seconds: The pause between two refreshes.
        """
        pause, stop = _seconds("every_seconds", every_seconds), threading.Event()

        def follow() -> None:
            while not stop.is_set():
                try:
                    self.refresh()
                except Exception as failed:
                    extra = {"event": "catalogue.fetch_failed"}
                    _LOG.warning("the games could not be fetched: %s", failed, extra=extra)
                stop.wait(pause)

        thread = threading.Thread(target=follow, name="game-operator-catalogue", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_LONGEST_END_SECONDS)

    def after_fork(self, *, in_child: bool) -> None:
        """With *in_child*, go on without the lock of the parent."""
        if in_child:
            self._one_at_a_time = threading.Lock()

    def _refresh(self) -> list[CatalogueChange]:
        before = self._state
        games = self._client.fetch_games()
        check_games(games)
        at_millis = time.time_ns() // 1_000_000
        self._apply(games, at_millis)
        return [] if before.at_millis is None else changes_between(before.games, games, at_millis=at_millis)

    def _apply(self, games: list[GameInfo], at_millis: int) -> None:
        """Make *games* the last good list, which other processes may have changed."""
        for _ in range(_MOST_TRIES):
            self._read()
            known, state = self._state, self._state.after(games, at_millis)
            if (known.games, known.gone) == (state.games, state.gone):
                self._state = state  # Thousands of games are not stored again each time for another moment.
                return
            if self._kept(state):
                return
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


def _seconds(name: str, value: Any) -> float:  # Anything the user passes.
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return value
    raise ConfigurationError(f"{name} must be a number of seconds from 0, not {shown(value)}.", setting=name)
