"""
The records of the journal, as plain values.

A run is a piece of work that any number of processes share. It has items, each judged or sent once, and chunks of
items. A process takes a chunk by a lease; what it found is committed only while the lease is its own. A finding is
something a person should look into; it outlives its run.

All amounts are whole cents, all times Unix milliseconds.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

#: ``planning`` while items are being added; ``paused`` and ``running`` go on; ``stopped`` and ``finished`` never do.
RunState: TypeAlias = Literal["planning", "running", "paused", "stopped", "finished"]


class Run(NamedTuple):
    """
    A run of a reconciliation or of a campaign.

    Attributes:
        id: Its number.
        kind: ``reconcile`` or ``campaign``.
        name: The campaign's name; "" for a reconciliation.
        source: The source of the ledger that it is about.
        service: The base address and the operator id that it asks.
        parameters: What it was begun with, as JSON.
        digest: SHA-256 of its plan in hexadecimal, or "".
        seed: What its sample is drawn by.
        as_of_millis: The time that ages are counted from.
        state: Where it stands.
        why: Why it is paused or stopped, or "".
        actor, reason: Who began it and why, where money may move.
        began_at_millis, touched_at_millis, ended_at_millis: When it began, last did something, and ended.
        cursor: How far its items were added, as JSON; "" once all are there.
        moved_count, moved_cents: How many of its items moved money, and how much; they are what brakes count.
        next_call_micros, interval_micros: When the next call may be made, and the time between two.
        failures: How many calls in a row have failed.
    """

    id: int
    kind: str
    name: str
    source: str
    service: str
    parameters: str
    digest: str
    seed: int
    as_of_millis: int
    state: RunState
    why: str
    actor: str | None
    reason: str | None
    began_at_millis: int
    touched_at_millis: int
    ended_at_millis: int | None
    cursor: str
    moved_count: int
    moved_cents: int
    next_call_micros: int
    interval_micros: int
    failures: int

    @property
    def is_under_way(self) -> bool:
        """Whether it can go on."""
        return self.state in ("planning", "running", "paused")

    @property
    def options(self) -> dict[str, Any]:
        """The parameters as values."""
        return dict(json.loads(self.parameters))


class Item(NamedTuple):
    """
    One bet or one grant of a run.

    Attributes:
        key: What it is about, unique within the run: a bet id, or a reference id.
        chunk, place: The chunk that has it, and its place there.
        state: ``""`` before it was judged; then the verdict, or what became of the grant.
        data: What else is known of it, as JSON.
        at_stake_cents: The money at stake.
        attempts: How often it was begun.
        evidence: The bytes that the state rests on, or None.
        digest: SHA-256 of what has to be equal in two looks, or None.
        at_millis: When it was judged or answered, or None.
    """

    key: str
    chunk: int
    place: int
    state: str
    data: str
    at_stake_cents: int
    attempts: int
    evidence: bytes | None
    digest: bytes | None
    at_millis: int | None

    @property
    def values(self) -> dict[str, Any]:
        """The data as values."""
        return dict(json.loads(self.data)) if self.data else {}


class NewItem(NamedTuple):
    """An item to add; *data* is what can be written as JSON."""

    key: str
    data: Mapping[str, Any]
    at_stake_cents: int = 0


class Chunk(NamedTuple):
    """Some items of a run, taken by a lease; *attempt* is the fence that each commit of it passes."""

    run_id: int
    number: int
    attempt: int
    items: tuple[Item, ...]


class ItemResult(NamedTuple):
    """What became of an item."""

    key: str
    state: str
    data: Mapping[str, Any]
    at_stake_cents: int = 0
    evidence: bytes | None = None
    digest: bytes | None = None


class Paced(NamedTuple):
    """
    How the calls of a chunk went, for the rate of the run.

    Attributes:
        answered: How many were answered.
        failed: How many have failed since the last that was answered.
        refused: Whether the service asked to be called less often.
        wait_millis: For how long it asked, or 0.
    """

    answered: int = 0
    failed: int = 0
    refused: bool = False
    wait_millis: int = 0
