"""Storms in process: a plan, a wallet, and books of two kinds to audit it by."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any, cast

from game_operator.ledger import MemoryLedger, SqlLedger
from game_operator.wallet import Wallet
from game_operator_testkit.provider.keys import ServiceKeys
from game_operator_testkit.sandbox.storm.audit import Closing
from game_operator_testkit.sandbox.storm.players import Books, LedgerBooks
from game_operator_testkit.sandbox.storm.report import StormReport
from game_operator_testkit.sandbox.storm.storm import Storm, openings
from game_operator_testkit.sandbox.storm.trace import TraceHead
from testkit.tests.sandbox.dealing import START_MILLIS, InProcess
from testkit.tests.sandbox.wrong_wallets import RightWallet

#: With the wallet's ledger, as by ``--database``; with balances alone, as by ``--players-file``.
AUDITS = ("ledger", "balances")


class MemoryBooks:
    """The books of a wallet in this process."""

    def __init__(self, courier: InProcess, audit: str) -> None:
        self._ledger, self._audit = courier.ledger, audit

    def open(self, opening: Mapping[str, int]) -> Mapping[str, int]:
        return opening

    def close(self, player_ids: Iterable[str]) -> Closing:
        balances = {player_id: int(self._ledger.balance(player_id)) for player_id in player_ids}
        bets = {bet.bet_id: bet for bet in self._ledger.bets()}
        return Closing(balances, bets if self._audit == "ledger" else None)


def head_of(**changes: Any) -> TraceHead:  # Any: fields of TraceHead, and players.
    """Return a plan of 200 bets of 40 players, without faults, with *changes*."""
    settings: dict[str, Any] = {
        "seed": 7,
        "start_millis": START_MILLIS,
        "bets": 200,
        "currency": "EUR",
        "faults": "none",
        "retries": "three",
    }
    players = changes.pop("players", 40)
    settings |= changes
    return TraceHead(**({"opening": openings(players, settings["seed"], START_MILLIS)} | settings))


def wallet_in_process(
    head: TraceHead,
    handler: Callable[[MemoryLedger], RightWallet] = RightWallet,
    *,
    random: Random | None = None,
) -> InProcess:
    """Return a courier to a wallet in this process that has the players of *head*."""
    return InProcess(opening=head.opening, handler=handler, random=random)


def storm(
    handler: Callable[[MemoryLedger], RightWallet] = RightWallet,
    *,
    audit: str = "ledger",
    concurrency: int = 1,
    courier: InProcess | None = None,
    books: Books | None = None,
    **changes: Any,  # Any: as of head_of.
) -> tuple[StormReport, InProcess]:
    """Storm a wallet in this process; return what came of it, and the courier with the wallet."""
    head = head_of(**changes)
    courier = courier or wallet_in_process(head, handler)
    stormed = Storm(
        "http://127.0.0.1:1",
        cast("ServiceKeys", courier.keys),  # Fast ones that sign as they do.
        books or MemoryBooks(courier, audit),
        head,
        concurrency=concurrency,
        courier=courier.post,
    )
    return stormed.run(), courier


@contextmanager
def storm_of_ledger(
    url: str, *, source: str = "", concurrency: int = 1, **changes: Any
) -> Iterator[tuple[Storm, SqlLedger]]:  # Any: as of head_of.
    """Return a storm to be run against the ready wallet over a ledger at *url*, in process and without RSA keys."""
    head = head_of(**changes)
    with SqlLedger(url) as ledger:
        wallet = Wallet(ledger, source=source)
        courier = InProcess(opening=head.opening, handler=lambda _memory: wallet, in_threads=concurrency > 1)
        stormed = Storm(
            "http://127.0.0.1:1",
            cast("ServiceKeys", courier.keys),
            LedgerBooks(url, source=source),
            head,
            concurrency=concurrency,
            courier=courier.post,
        )
        yield stormed, ledger


def slips_of(courier: InProcess) -> set[str]:
    """Return the bets and claims that the wallet's bug has done something to."""
    assert isinstance(courier.handler, RightWallet)
    return set(courier.handler.slips)
