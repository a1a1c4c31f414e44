"""Anomalies: what a person should look at, each kept once with the body it came in, and applied again on request."""

import json
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from game_operator.codes import WebhookErrorCode
from game_operator.errors import MalformedCallError, RetryRefusedError
from game_operator.ledger.api import Terms
from game_operator.ledger.engine.dialects import SqlDialect
from game_operator.ledger.engine.sources import Sources, refusal
from game_operator.ledger.engine.tables import toml_texts
from game_operator.ledger.rules.book import FOREIGN_PLAYER, Anomaly, Book, Changes, Item, Needs
from game_operator.ledger.rules.decide import UNIT_DOES_NOT_FIT
from game_operator.ledger.steps import Execute, Steps
from game_operator.models.webhooks import DepositCall, RollbackCall, WebhookCall
from game_operator.protocol.webhook import read_call

#: A source where another index leads to the rows: no index has this expression, so no planner prefers one that begins
#: with the source.
OF_SOURCE = "source || '' = ?"

#: What can be applied again: money that may be owed. A late withdraw would debit for a bet that was never played.
_RETRIED = frozenset({"deposit", "rollback"})

#: A condition in SQL, and its parameters.
_Condition: TypeAlias = tuple[str, tuple[object, ...]]
_LAST_MILLIS: Final = 2**62


@cache
def anomaly_texts() -> dict[str, dict[str, str]]:
    """Return what each kind of anomaly ``means``, and what to do about it (``todo``)."""
    return toml_texts(__package__, "anomalies.toml")


class AnomalyRecord(NamedTuple):
    """
    Something that a person should look at (``anomalies.toml`` says what to do about each kind).

    Attributes:
        id: Its number, in the order in which anomalies came.
        source: The service and environment it belongs to.
        kind: What is odd, such as ``early_deposit`` or ``unreadable``.
        code: What the call was last answered; None for SUCCESS.
        operation: The path it was posted to: ``deposit``, ``rollback``, ``withdraw`` or ``deposit-batch``.
        tx_id, bet_id, player_id: As the call has them, or None where it could not be read.
        body: The body as it came in; ``b""`` once it was resolved and dropped.
        first_at_millis, last_at_millis: When the same body came first and last.
        seen: How often it came.
        resolved_at_millis: When it was resolved, or None.
    """

    id: int
    source: str
    kind: str
    code: str | None
    operation: str
    tx_id: str | None
    bet_id: str | None
    player_id: str | None
    body: bytes
    first_at_millis: int
    last_at_millis: int
    seen: int
    resolved_at_millis: int | None


class Wanted(NamedTuple):
    """Which anomalies are asked for, as ``SqlLedger.anomalies`` has it."""

    source: str | None = None
    resolved: bool | None = False
    since_millis: int = 0
    until_millis: int | None = None
    kind: str | Collection[str] | None = None
    player_id: str | None = None
    id_prefix: str | None = None

    def conditions(self) -> "list[_Condition]":
        """Return the conditions of a page, which follows the index of the time, however few rows meet them."""
        until_millis = _LAST_MILLIS if self.until_millis is None else self.until_millis
        found: list[_Condition] = [
            ("first_at_millis < ?", (until_millis,)),
            ("last_at_millis >= ?", (self.since_millis,)),
        ]
        if self.source is not None:
            found.append((OF_SOURCE, (self.source,)))
        if self.resolved is not None:
            found.append((f"resolved_at_millis IS {'NOT ' if self.resolved else ''}NULL", ()))
        if self.kind is not None:
            kinds = (self.kind,) if isinstance(self.kind, str) else tuple(self.kind)
            found.append((f"kind IN ({', '.join('?' * len(kinds)) or 'NULL'})", kinds))
        if self.player_id is not None:
            found.append((f"(player_id = ? OR {_NAMELESS})", (self.player_id,)))
        if self.id_prefix:
            begins = f"(substr(bet_id, 1, ?) = ? OR substr(tx_id, 1, ?) = ? OR {_NAMELESS})"
            found.append((begins, (len(self.id_prefix), self.id_prefix) * 2))
        return found

    def admits(self, record: AnomalyRecord) -> bool:
        """Return whether a record is wanted that meets the conditions: one that was no call is asked for its body."""
        if (record.player_id, record.bet_id, record.tx_id) != (None, None, None):
            return True
        named = self.player_id is None or _names(record.body, self.player_id, '"')
        return named and (not self.id_prefix or _names(record.body, self.id_prefix))


#: What was refused before it was a call: the player, bet and transaction are only in its body.
_NAMELESS = "(player_id IS NULL AND bet_id IS NULL AND tx_id IS NULL)"


def _names(body: bytes, value: str, end: str = "") -> bool:
    """Return whether a text in *body*, in a field of any name, begins with *value*; with *end*, whether it is that."""
    spellings = (json.dumps(value, ensure_ascii=ascii_only)[:-1] for ascii_only in (True, False))
    return any(f"{spelling}{end}".encode() in body for spelling in spellings)


_SELECT = f"SELECT {', '.join(AnomalyRecord._fields)}"


def record_of(row: Any) -> AnomalyRecord:
    """Return the anomaly in a row of its columns; some drivers give a body as a memoryview."""
    return AnomalyRecord._make([*row[:8], bytes(row[8]), *row[9:]])


def page_of_anomalies(
    prefix: str, wanted: Wanted, after: AnomalyRecord | None, most: int
) -> Steps[list[AnomalyRecord]]:
    """Return at most *most* wanted anomalies by the time they came first and by id, those that follow *after*."""
    start = (after.first_at_millis, after.id) if after else (0, 0)
    conditions = [("(first_at_millis, id) > (?, ?)", start), *wanted.conditions()]
    where = " AND ".join(condition for condition, _ in conditions)
    sql = f"{_SELECT} FROM {prefix}anomalies WHERE {where} ORDER BY first_at_millis, id LIMIT ?"
    parameters = (*(value for _, values in conditions for value in values), most)
    return list(map(record_of, (yield Execute(sql, parameters))))


def anomaly(prefix: str, anomaly_id: int) -> Steps[AnomalyRecord]:
    """Return an anomaly; raise RetryRefusedError if there is none."""
    # Beyond 63 bits the drivers raise errors of their own.
    fits = 0 < anomaly_id < 1 << 63
    rows = (yield Execute(f"{_SELECT} FROM {prefix}anomalies WHERE id = ?", (anomaly_id,))) if fits else ()
    if not rows:
        raise RetryRefusedError(
            f"There is no anomaly {anomaly_id}.",
            remedy="List them with `game-operator ledger anomalies`.",
        )
    return record_of(rows[0])


def check_anomalies(prefix: str, ids: Iterable[int]) -> Steps[None]:
    """Raise RetryRefusedError if one of the anomalies does not exist."""
    for each in ids:
        yield from anomaly(prefix, each)


def to_retry(
    prefix: str, anomaly_id: int, terms: Terms, *, accept_foreign: bool, asks_owns: bool = False
) -> Steps[Item]:
    """
    Return the call of an anomaly and the terms to apply it by: the anomaly's own source, and the profile given.

    Raises:
        RetryRefusedError: It cannot be applied again, or should not be.
        UnknownSourceError: The ledger does not know its source. To apply it would count it as seen again.
    """
    record = yield from anomaly(prefix, anomaly_id)
    problem = _problem(record, accept_foreign=accept_foreign, asks_owns=asks_owns)
    if problem:
        raise RetryRefusedError(f"The anomaly {anomaly_id} cannot be retried: {problem}")
    try:
        call = read_call(record.operation, record.body, terms.rules)[0]
    except MalformedCallError as malformed:
        raise RetryRefusedError(
            f"The anomaly {anomaly_id} cannot be retried: its body cannot be read ({malformed}). Read it yourself, "
            "move what is owed with adjust(), and mark it with resolve() (`game-operator ledger adjust` and "
            "`resolve`)."
        ) from malformed
    known = yield from Sources("sqlite", prefix).load()  # The same statement for every kind.
    if known and record.source not in known:
        raise refusal(record.source, known)
    return Item(call, replace(terms, source=record.source))


def resolve_anomalies(prefix: str, ids: Iterable[int], dialect: SqlDialect) -> Steps[None]:
    """Mark anomalies as resolved now, unless they are already."""
    loaded = yield from dialect.load(Needs(""))
    update = f"UPDATE {prefix}anomalies SET resolved_at_millis = ? WHERE id = ? AND resolved_at_millis IS NULL"  # noqa: S608 - a checked prefix
    yield Execute(update, [(loaded.clock_millis, each) for each in ids], many=True)


def keep_anomaly(operation: str, kind: str, body: bytes, source: str, dialect: SqlDialect) -> Steps[None]:
    """Keep a genuine call that was refused before it was a call; the same body again is counted."""
    code = WebhookErrorCode.INVALID_REQUEST.value
    yield from store_anomaly(Anomaly(kind, code, operation, None, None, None, body, 0), source, dialect)


def store_anomaly(anomaly: Anomaly, source: str, dialect: SqlDialect) -> Steps[None]:
    """Store *anomaly* with the time it is now; the same body again is counted."""
    loaded = yield from dialect.load(Needs(source))
    at_now = anomaly._replace(at_millis=loaded.clock_millis)
    yield from dialect.store(source, Changes(anomalies=[at_now]), was={})


def unknown_source(call: WebhookCall, terms: Terms) -> Anomaly | None:
    """Return what is kept of a call whose source the ledger does not know; None of a withdraw."""
    book = Book(terms.source)
    book.note_unknown_source(call, terms, 0)
    return next(iter(book.changes.anomalies), None)


def foreign_player(call: WebhookCall, terms: Terms) -> Anomaly | None:
    """Return what is kept of a call whose player the ledger does not own; None of a withdraw."""
    found = unknown_source(call, terms)
    return found and found._replace(kind=FOREIGN_PLAYER)


def keep_unfit(call: DepositCall | RollbackCall, terms: Terms, dialect: SqlDialect) -> Steps[None]:
    """Keep what a repair or payment would have moved, if the unit of the operator's column cannot hold it."""
    found = unknown_source(call, terms)
    assert found is not None
    yield from store_anomaly(found._replace(kind=UNIT_DOES_NOT_FIT), terms.source, dialect)


def _problem(record: AnomalyRecord, *, accept_foreign: bool, asks_owns: bool) -> str:
    if record.resolved_at_millis is not None:
        return "it is resolved. What its call did stands in the bet's history."
    if record.operation == "withdraw":
        return (
            "a withdraw would debit now for a call that was refused then. Leave it refused, and mark it "
            "with resolve() or `game-operator ledger resolve`."
        )
    if record.operation not in _RETRIED:
        return (
            f"a {record.operation} is not a single deposit or rollback. Look at its body, and mark it with resolve() "
            "or `game-operator ledger resolve`."
        )
    if record.kind == "foreign_instance" and not accept_foreign:
        return (
            "it names a game instance that is not yours, and crediting it would pay for another operator. If the "
            "instance is yours after all, repeat with accept_foreign=True (--accept-foreign)."
        )
    if record.kind == FOREIGN_PLAYER and not (accept_foreign or asks_owns):
        return (
            "its player is another ledger's, and this program has no owns= to ask. Retry it from a program that has; "
            "if the player is this ledger's after all, repeat with accept_foreign=True (--accept-foreign)."
        )
    return ""
