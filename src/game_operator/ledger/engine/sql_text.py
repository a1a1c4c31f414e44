"""Pieces of SQL that several statements share."""

import json
from collections.abc import Set
from typing import Any

from game_operator.ledger.engine.script import Execute

__all__ = [
    "CLOCK",
    "DURABLE",
    "IN_LIST",
    "JSON_ROWS",
    "KEYS",
    "clocks_part",
    "json_column",
    "json_columns",
    "one_or_many",
]

#: PostgreSQL's clock in Unix milliseconds, one for all machines.
CLOCK = "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)"

#: PostgreSQL: wait for the disk at this transaction's commit, whatever the session prefers; lower nothing.
DURABLE = (
    "(SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN "
    "('off', 'local'))"
)

#: SQLite: any number of keys as one JSON text.
IN_LIST = "IN (SELECT value FROM json_each(?))"

#: PostgreSQL: any number of keys as one JSON text: one parameter of one type for every driver, and quicker to read than
#: an array each.
KEYS = "ARRAY(SELECT jsonb_array_elements_text(CAST(CAST(? AS text) AS jsonb)))"

#: PostgreSQL: rows as one JSON text, an array of arrays.
JSON_ROWS = "json_array_elements(CAST(CAST(? AS text) AS json)) AS item"


def one_or_many(one: str, many: str, before: tuple[Any, ...], keys: Set[Any]) -> Execute:
    """Return SQLite's look-up of *keys*: statement *one* for a single key, *many* with IN_LIST otherwise."""
    if len(keys) == 1:
        return Execute(one, (*before, *keys))
    return Execute(many, (*before, json.dumps(list(keys))))


def json_columns(kinds: str) -> str:
    """Return the columns of JSON_ROWS from the first on, each of the kind that ``json_column`` names."""
    return ", ".join(json_column(index, kind) for index, kind in enumerate(kinds))


def json_column(index: int, kind: str) -> str:
    """Return a column of JSON_ROWS: t a text, b a bigint, x bytes in hexadecimal."""
    text = f"(item ->> {index})"
    return {"t": text, "b": f"CAST({text} AS bigint)", "x": f"decode({text}, 'hex')"}[kind]


def clocks_part(prefix: str) -> str:
    """Return PostgreSQL's statement that keeps when accounts of the operator's own moved last."""
    return (
        f"INSERT INTO {prefix}clocks (account, at_millis) SELECT {json_columns('tb')} FROM {JSON_ROWS} "  # noqa: S608
        "ORDER BY 1 ON CONFLICT (account) DO UPDATE SET at_millis = excluded.at_millis"
    )
