"""The demo's fourth story, the ready wallet certified: everything that a wallet must survive, one after the other."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from game_operator.certify.engine.certifying import certify
from game_operator.certify.engine.scenario import GROUPS
from game_operator.certify.report.report import Report
from game_operator.certify.report.verdicts import Outcome
from game_operator.cli.demonstration.chapters import AmissError, Chapter, Scenes, hold, played
from game_operator.ledger.sql import SqlLedger

__all__ = ["told_of_certification"]

_PLAYERS: Final = ("tester-1", "tester-2")
_GROUPS: Final = ("A", "B", "C")
_NAMED: Final = ", ".join(GROUPS[group] for group in _GROUPS)


@dataclass(frozen=True, slots=True)
class _Stage:
    """What the story is played on: the service's key, the wallet that knows it, and the wallet's ledger."""

    service_key: Path
    wallet: dict[str, Any]
    ledger: SqlLedger


def told_of_certification(service_key: Path, wallet: dict[str, Any], database: str) -> Iterator[Chapter]:
    """
    Yield the story chapter by chapter, up to its end or to the first chapter with a problem.

    Args:
        service_key: The service's private key; the wallet knows its public half.
        wallet: What the wallet server says about itself.
        database: Its ledger.
    """
    with SqlLedger(database) as ledger:
        yield from played(_SCENES, _Stage(service_key, wallet, ledger))


def _players(stage: _Stage) -> Iterator[str]:
    yield f"a wallet at {stage.wallet['url']}, process {stage.wallet['pid']}"
    for player_id in _PLAYERS:
        stage.ledger.open_account(player_id, Decimal("100.00"))
    yield f"opened {' and '.join(_PLAYERS)} with 100.00 each: all that a certification needs, beside the service's key"


def _certified(stage: _Stage) -> Iterator[str]:
    report = certify(
        stage.wallet["url"],
        signing_key=stage.service_key,
        player_id=_PLAYERS[0],
        other_player_id=_PLAYERS[1],
        only=_GROUPS,
    )
    for group in _GROUPS:
        yield f"{group} {GROUPS[group]}: {_counted(report, group)}"
    if not report.passed:
        first = report.causes[0].verdict
        raise AmissError(f"the wallet fails {first.id}, {first.title}: {first.reason}")
    for verdict in report.advice:
        yield f"advice: {verdict.id} {verdict.reason}"
    for moved in report.moved:
        hold(moved.difference_cents == 0, f"{moved.player_id}'s balance is not what it was before")
    yield f"{report.calls} calls in {report.seconds:.1f} s; both balances are what they were before: PASSED"
    yield "`game-operator certify URL` does this to any wallet, in whatever language it is written"


def _counted(report: Report, group: str) -> str:
    outcomes = [verdict.outcome for verdict in report.of_group(group)]
    told = [f"{outcomes.count(outcome)} {word}" for outcome, word in _WORDS.items() if outcome in outcomes]
    return f"{len(outcomes)} scenarios, {', '.join(told)}"


_WORDS: Final = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "failed",
    Outcome.SKIPPED: "not tried, for they need what this demo does not supply",
}
_SCENES: Final[Scenes[_Stage]] = (
    ("A wallet to be certified", _players),
    (f"Certified: {_NAMED}", _certified),
)
