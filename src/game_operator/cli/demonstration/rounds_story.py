"""The demo's third story, service and wallet together: rounds played with faults, and all of it audited."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from textwrap import wrap
from typing import Any

from game_operator.cli.demonstration.chapters import AmissError, Chapter, Scenes, hold, played
from game_operator.codes import BetState
from game_operator.ledger.sql import SqlLedger
from game_operator.models import ClosedBet, RolledBackBet, RoundFound
from game_operator.money import amount_from_cents
from game_operator.provider.keys import ServiceKeys
from game_operator.sandbox.dealing.plan import Plan, PlannedRound
from game_operator.sandbox.server import Sandbox
from game_operator.sandbox.service.played_round import PlayedRound
from game_operator.sandbox.service.seed import catalogue
from game_operator.sandbox.storm.players import LedgerBooks
from game_operator.sandbox.storm.report import StormReport
from game_operator.sandbox.storm.storm import Storm, openings
from game_operator.sandbox.storm.trace import TraceHead

__all__ = ["told_of_rounds"]

_PLAYER = "player-1"
_ROUNDS, _PLAYERS, _SEED = 50, 20, 7
_FAULTS = "all"
_WIDTH = 80
_DAY_MILLIS = 86_400_000


@dataclass(frozen=True, slots=True)
class _Stage:
    """What the story is played on: the service with its key, the wallet, and the wallet's ledger."""

    sandbox: Sandbox
    service_key: Path
    wallet: dict[str, Any]
    database: str
    ledger: SqlLedger

    def hold_agreement(self, round_: PlayedRound, state: BetState) -> str:
        """Hold that service and wallet have the round's bet in *state*; return its id."""
        (bet_id,) = round_.bet_ids
        hold(not round_.problems, f"the round went wrong: {'; '.join(round_.problems)}")
        kept = self.ledger.bet(bet_id)
        hold(kept is not None and kept.state == state, f"the wallet has the bet {bet_id} otherwise than {state}")
        return bet_id


def told_of_rounds(service_key: Path, wallet: dict[str, Any], database: str) -> Iterator[Chapter]:
    """
    Yield the story chapter by chapter, up to its end or to the first chapter with a problem.

    Args:
        service_key: The service's private key; the wallet knows its public half.
        wallet: What the wallet server says about itself.
        database: Its ledger.
    """
    with (
        Sandbox(wallet_url=wallet["url"], service_private_key=service_key) as sandbox,
        SqlLedger(database) as ledger,
    ):
        yield from played(_SCENES, _Stage(sandbox, service_key, wallet, database, ledger))


def _round(stage: _Stage) -> Iterator[str]:
    stage.ledger.open_account(_PLAYER, Decimal("100.00"))
    yield f"the service at {stage.sandbox.base_url}, a wallet at {stage.wallet['url']}, process {stage.wallet['pid']}"
    won = stage.sandbox.play_round(player_id=_PLAYER, wager_cents=500, won_cents=1250)
    bet_id = stage.hold_agreement(won, BetState.CLOSED)
    yield f"a win: {', '.join(f'{each.path} {each.reply.balance}' for each in won.deliveries if each.reply)}"
    with stage.sandbox.client() as client:
        bet = client.fetch_bet(bet_id)
        hold(isinstance(bet, ClosedBet) and bet.won == 1250, "the service does not know the bet as CLOSED with 12.50")
        found = client.fetch_round_bets(instance_id=stage.sandbox.instance_id, round_no=won.round_no)
        hold(isinstance(found, RoundFound) and len(found.bets) == 1, "the service does not know the round")
        yield f"the same bet by fetch-bet: {bet.status}; its round by fetch-round-bets: number {won.round_no}"
        cancelled = stage.sandbox.play_round(player_id=_PLAYER, wager_cents=500, cancel=True)
        bet_id = stage.hold_agreement(cancelled, BetState.ROLLED_BACK)
        hold(isinstance(client.fetch_bet(bet_id), RolledBackBet), "the service does not know the bet as ROLLED_BACK")
    yield "a cancelled one: withdraw, rollback; ROLLED_BACK on both sides"


def _free_bets(stage: _Stage) -> Iterator[str]:
    with stage.sandbox.client() as client:
        granted = client.grant_free_bet(
            player_id=_PLAYER,
            instance_id=stage.sandbox.instance_id,
            count=3,
            wager_amount_cents=100,
            expire_duration_millis=_DAY_MILLIS,
            reference_id="welcome-2",
        )
    before = stage.ledger.balance(_PLAYER)
    claim = stage.sandbox.claim_free_bets(granted.free_bet_id)
    reply = claim.deliveries[-1].reply
    hold(not claim.problems and reply is not None, "the claim was refused")
    won = amount_from_cents(stage.ledger.balance(_PLAYER) - before)
    yield f"3 free bets granted and played; their winnings of {won} are claimed by one deposit, FREE_BET_CLAIM"


def _lost_reply(stage: _Stage) -> Iterator[str]:
    before = stage.ledger.balance(_PLAYER)
    stage.sandbox.faults.set_nth("reply-lost", 1)
    lost = stage.sandbox.play_round(player_id=_PLAYER, wager_cents=500, won_cents=0)
    stage.hold_agreement(lost, BetState.CLOSED)
    withdraws = sum(each.path == "/withdraw" for each in lost.deliveries)
    hold(withdraws == 2, f"the withdraw was delivered {withdraws} times, not twice")
    hold(stage.ledger.balance(_PLAYER) == before - 500, "the wager was not debited once")
    yield "the wallet debits and answers, the service does not hear it and sends the withdraw again: debited once"


def _storm(stage: _Stage) -> Iterator[str]:
    report = _stormed(stage)
    faults = sum(report.faults.values())
    yield (
        f"{_ROUNDS} rounds, {report.bets} bets, {report.claims} claims of free bets of {_PLAYERS} players; "
        f"{report.posts} calls in {report.seconds:.1f} s"
    )
    yield f"{faults} faults struck:"
    for line in wrap(
        ", ".join(f"{fault} {count}" for fault, count in sorted(report.faults.items())), _WIDTH, break_on_hyphens=False
    ):
        yield f"   {line}"
    if not report.passed:
        first = next(iter(report.differences), None)
        raise AmissError(f"service and wallet differ: {first}" if first else "an answer was not HTTP 200")
    yield "audited bet by bet and player by player: service and wallet agree on all of it"


def _stormed(stage: _Stage) -> StormReport:
    start_millis = time.time_ns() // 1_000_000
    players = openings(_PLAYERS, _SEED, start_millis)
    plan = Plan(seed=_SEED, start_millis=start_millis, games=catalogue(_SEED), players=tuple(players), bets=10_000)
    rounds = islice((item for item in plan if isinstance(item, PlannedRound)), _ROUNDS)
    head = TraceHead(
        seed=_SEED,
        start_millis=start_millis,
        # A plan of as many bets has these rounds and no more.
        bets=sum(len(each.bets) for each in rounds),
        currency="EUR",
        faults=_FAULTS,
        retries="three",
        batches=False,
        opening=players,
    )
    return Storm(stage.wallet["url"], ServiceKeys(stage.service_key), LedgerBooks(stage.database), head).run()


_SCENES: Scenes[_Stage] = (
    ("A round played by the service (withdraw, deposit or rollback)", _round),
    ("Free bets, granted and claimed", _free_bets),
    ("A reply that is lost", _lost_reply),
    (f"{_ROUNDS} rounds with every fault there is", _storm),
)
