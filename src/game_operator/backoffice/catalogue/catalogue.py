"""
The games of the service as the operator's other programs need them: current, compared, and kept (spec §2.5 to §2.7).

What is read never waits: it is the last good list. A refresh asks the service, compares, and stores.
"""

import inspect
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from game_operator.backoffice.catalogue.changes import CatalogueChange, changes_between
from game_operator.backoffice.catalogue.snapshots import (
    CatalogueState,
    GoneInstance,
    HeldSnapshot,
    after_acceptance,
    after_fetch,
    decode_state,
    encode_state,
)
from game_operator.backoffice.catalogue.stores import store_at
from game_operator.backoffice.catalogue.unknown_instances import UnknownInstances
from game_operator.errors import ConfigurationError, InstancesUnavailableError, shown
from game_operator.ledger.engine.process_safety import Forkable, notify_of_forks
from game_operator.models import GameInfo, GameInstance
from game_operator.models.wire import WireModel
from game_operator.protocol.http import service_name

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient
    from game_operator.ledger import SqlLedger
    from game_operator.models import MovingCall

_LOG = logging.getLogger("game_operator.backoffice")
_MOST_CHANGES: Final = 1_000
#: How long the end of ``following`` waits for a refresh that is under way.
_LONGEST_END_SECONDS: Final = 5.0


@dataclass(frozen=True)
class _View:
    """A state as it is read: replaced as a whole, so that readers need no lock."""

    state: CatalogueState
    listed: Mapping[str, tuple[str, GameInstance]]
    gone: Mapping[str, GoneInstance]
    instances: frozenset[str]

    @cached_property
    def json(self) -> str:
        """The last good list as JSON; made once, because a web server hands it out often."""
        current = self.state.current
        document = {
            "fetched_at_millis": current.at_millis if current else None,
            "games": [_known_fields(game) for game in self.state.games],
        }
        text = json.dumps(document, default=lambda amount: format(amount, "f"), separators=(",", ":"))
        return text.replace("<", "\\u003c")


class Catalogue(Forkable):
    """
    The service's games, refreshed, compared and kept (spec §2.5 to §2.7, §4.2).

    Pass it to ``WebhookReceiver(instances=catalogue)``: an instance that was ever seen is accepted, and an unknown one
    causes a refresh. Iterate over it for its games. Threads may share it.

    Args:
        client: Asks the service. It stays yours to close.
        store: Keeps what was seen: None in memory, a path in a file, a ``SqlLedger`` in its database.
        most_gone: The share of the games, and of the instances, that may disappear at once: 0 to 1. A list in which
            more would be gone is held for a person.
        min_refresh_seconds: How far apart the refreshes are that unknown instances cause.
        wait_seconds: How long calls for unknown instances wait for such a refresh, in threads, from its beginning. An
            event loop never waits.
        clock: The time in seconds, which never goes back; else ``time.monotonic``.

    Raises:
        TypeError: An argument is of another kind.
        ConfigurationError: A number is out of its range, or the store is damaged or another service's.
    """

    def __init__(
        self,
        client: "OperatorClient",
        store: "str | Path | SqlLedger | None" = None,
        *,
        most_gone: Decimal = Decimal("0.30"),
        min_refresh_seconds: float = 60.0,
        wait_seconds: float = 0.25,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._client = _checked_client(client)
        self._most_gone = _checked_share(most_gone)
        self._clock = clock or (lambda: time.monotonic())
        self._service = service_name(client.base_url, client.operator_id)
        self._store = store_at(store, name=f"catalogue:{self._service}")
        self._unknown = UnknownInstances(
            self._is_refreshed,
            self._clock,
            min_refresh_seconds=_seconds("min_refresh_seconds", min_refresh_seconds),
            wait_seconds=_seconds("wait_seconds", wait_seconds),
        )
        self._one_at_a_time = threading.RLock()
        self._known: tuple[bytes | None, CatalogueState] = (None, CatalogueState(service=self._service))
        self._view = _view_of(self._read(self._store.read()))
        self._changes: tuple[CatalogueChange, ...] = ()
        self._subscribers: dict[object, Callable[[CatalogueChange], object]] = {}
        self._error: Exception | None = None
        notify_of_forks(self)

    @property
    def games(self) -> tuple[GameInfo, ...]:
        """The games of the last good list."""
        return self._view.state.games

    @property
    def instances(self) -> frozenset[str]:
        """The ids of all instances ever seen, gone ones too."""
        return self._view.instances

    @property
    def fetched_at_millis(self) -> int | None:
        """When the service answered the last good list, in Unix milliseconds; None until it has."""
        current = self._view.state.current
        return current.at_millis if current else None

    @property
    def held(self) -> HeldSnapshot | None:
        """The list that waits for a person, with its ``reason`` and ``digest``; None if none does."""
        return self._view.state.held

    @property
    def held_changes(self) -> list[CatalogueChange]:
        """What ``accept_held`` would change, so that a person can look at it first; nothing for a first list."""
        state = self._view.state
        if state.held is None or state.current is None:
            return []
        return changes_between(state.games, state.held.games, at_millis=state.held.at_millis)

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
        view = self._view
        if instance_id in view.listed:
            return view.listed[instance_id][1]
        return view.gone[instance_id].instance if instance_id in view.gone else None

    def currency_of(self, call: "MovingCall") -> str | None:
        """Return the currency of the instance that *call* names (spec §2.7); None if it names no known one."""
        instance = self.instance(call.instance_id) if call.instance_id is not None else None
        return instance.bet_config.currency if instance else None

    def refresh(self) -> list[CatalogueChange]:
        """
        Ask the service, and return what differs from the last good list; nothing if there was none.

        A list that is held changes nothing: see ``held``. When this raises, the last good list stays.

        Raises:
            ApiError: The service said no, or an id stands twice in its answer.
            TransportError: The service did not answer.
            ConfigurationError: The store cannot be used.
        """
        with self._one_at_a_time:
            return self._refresh()

    def accept_held(self, digest: str | None = None) -> list[CatalogueChange]:
        """
        Apply the list that is held, and return what it changes.

        Args:
            digest: The ``held.digest`` that a person looked at; None accepts what is held now.

        Raises:
            ConfigurationError: No list is held, another one is, or the store cannot be used.
        """
        with self._one_at_a_time:
            return self._changed(lambda state: after_acceptance(state, digest))

    def subscribe(self, callback: Callable[[CatalogueChange], object]) -> Callable[[], None]:
        """
        Call *callback* with each change from now on, in the thread that refreshes; what it raises is logged.

        Returns:
            A function that ends the subscription.
        """
        token = object()
        self._subscribers[token] = callback

        def unsubscribe() -> None:
            self._subscribers.pop(token, None)

        return unsubscribe

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

        At the end of the block a refresh that is under way has 5 seconds. Use ``subscribe`` to get the changes.
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

    def to_json(self) -> str:
        """
        Return the last good list as JSON for web front ends: each amount, and the RTP, is text with all its digits.

        It can stand inside a page: "<" is written as an escape.
        """
        return self._view.json

    def __contains__(self, instance_id: object) -> bool:
        """
        Return whether an instance is this operator's: for a receiver, and without a long wait.

        An unknown instance causes a refresh. The answer is False once a list that was asked for since lacks it.

        Raises:
            InstancesUnavailableError: There is no such list yet.
        """
        if not isinstance(instance_id, str):
            return False
        if instance_id in self._view.instances:
            return True
        is_settled = self._unknown.is_settled(instance_id)
        if instance_id in self._view.instances:
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

    def _refresh(self) -> list[CatalogueChange]:
        began = self._clock()
        try:
            games = self._client.fetch_games()
            at = time.time_ns() // 1_000_000
            changes = self._changed(lambda state: after_fetch(state, games, at_millis=at, most_gone=self._most_gone))
        except Exception as failed:
            self._error = failed
            raise
        self._error = None
        if self.held is None:
            self._unknown.looked(began)
        else:
            extra = {"event": "catalogue.held"}
            _LOG.warning("a list of games is held for a person: %s", self.held.reason, extra=extra)
        return changes

    def _changed(self, step: Callable[[CatalogueState], CatalogueState]) -> list[CatalogueChange]:
        """Take *step* from the stored state, which other processes may have changed; report what is new here."""

        def change(body: bytes | None) -> tuple[bytes, CatalogueState]:
            state = step(self._read(body))
            encoded = encode_state(state)
            self._known = (encoded, state)
            return encoded, state

        stored = self._store.change(change)
        before, self._view = self._view.state, _view_of(stored)
        if before.current is None or stored.current is None:
            return []
        changes = changes_between(before.games, stored.games, at_millis=stored.current.at_millis)
        self._report(changes)
        return changes

    def _report(self, changes: list[CatalogueChange]) -> None:
        self._changes = (*reversed(changes), *self._changes)[:_MOST_CHANGES]
        for change in changes:
            for callback in list(self._subscribers.values()):
                try:
                    callback(change)
                except Exception:  # The operator's own code, which must not keep others from the news.
                    extra = {"event": "catalogue.subscriber_raised"}
                    _LOG.exception("a subscriber of the catalogue raised", extra=extra)

    def _read(self, body: bytes | None) -> CatalogueState:
        if body is None or body != self._known[0]:  # Of thousands of games, reading takes a good part of a second.
            self._known = (body, decode_state(body, service=self._service, place=self._store.place))
        return self._known[1]


def _view_of(state: CatalogueState) -> _View:
    listed = state.current.instances if state.current else {}
    return _View(state, listed, state.gone, frozenset(listed) | frozenset(state.gone))


def _known_fields(value: object) -> object:
    """Return *value* without the fields that its model does not know: their numbers may not be exact."""
    if isinstance(value, WireModel):
        return {name: _known_fields(getattr(value, name)) for name in type(value).model_fields}
    return [_known_fields(each) for each in value] if isinstance(value, tuple) else value


def _checked_client(client: "OperatorClient") -> "OperatorClient":
    fetch = getattr(client, "fetch_games", None)
    if fetch is None:
        raise TypeError(f"client must be an OperatorClient, not {type(client).__name__}")
    if inspect.iscoroutinefunction(fetch):
        raise TypeError("client is async: pass an OperatorClient. A catalogue asks in a thread, beside asyncio too")
    return client


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
