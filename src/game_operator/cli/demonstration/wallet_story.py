"""The demo's second story, webhooks at the ready wallet: each chapter holds the replies against what is due."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from game_operator.cli.demonstration.chapters import AmissError, Chapter, Scenes, hold, played
from game_operator.cli.keys import KeyFiles, fingerprint
from game_operator.codes import BetState
from game_operator.ledger.sql import SqlLedger
from game_operator.models.webhooks import BalanceCall, DepositCall, RollbackCall, WithdrawCall
from game_operator.money import amount_from_cents
from game_operator.protocol.webhook import encode_call
from game_operator.provider.caller import Delivery, WebhookCaller

__all__ = ["told_of_wallet"]

_ANN, _BOB = "player-1", "player-2"
_REPEATED = WithdrawCall(player_id=_ANN, bet_id="bet-4", amount_cents=300, instance_id="i1", game="aviator")
#: What the story leaves behind.
_STATES = {
    BetState.OPEN: 1,
    BetState.CLOSED: 2,
    BetState.ROLLED_BACK: 1,
    BetState.TOMBSTONE: 1,
    BetState.DECLINED: 1,
}


@dataclass(frozen=True, slots=True)
class _Stage:
    """What the story is played on: the service's side of the webhooks, and the operator's ledger."""

    keys: KeyFiles
    wallet: dict[str, Any]
    log: Path
    service: WebhookCaller
    ledger: SqlLedger

    def hold_state(self, bet_id: str, state: BetState) -> None:
        """Hold that the ledger has the bet in *state*."""
        bet = self.ledger.bet(bet_id)
        hold(
            bet is not None and bet.state == state,
            f"the bet {bet_id} is {bet.state if bet else 'unknown'}, not {state}",
        )

    def reason_logged(self, code: str) -> str:
        """Return why the last call that is in the wallet's log was refused with *code*."""
        reason = self.log.read_text(errors="replace").rpartition(f"refused with {code}: ")[2].strip()
        hold(bool(reason), f"the wallet's log does not say why a call was refused with {code}")
        return reason


def told_of_wallet(keys: KeyFiles, wallet: dict[str, Any], database: str, log: Path) -> Iterator[Chapter]:
    """
    Yield the story chapter by chapter, up to its end or to the first chapter with a problem.

    Args:
        keys: The service's key pair.
        wallet: What the wallet server says about itself.
        database: Its ledger, which is opened here as well: a database may have any number of processes.
        log: Where its standard error goes.
    """
    with WebhookCaller(wallet["url"], keys.private) as service, SqlLedger(database) as ledger:
        yield from played(_SCENES, _Stage(keys, wallet, log, service, ledger))


def _answered(delivery: Delivery, balance: str | None, code: str | None = None) -> str:
    """Hold the reply against *balance*, in currency units, and *code*; return it in words."""
    hold(delivery.status == 200, f"{delivery.path} is answered HTTP {delivery.status}, not 200")
    reply = delivery.reply
    if reply is None:
        raise AmissError(f"{delivery.path} is answered, and not with a reply: {delivery.problem}")
    told = reply.code or reply.type
    hold(reply.code == code, f"{delivery.path} is answered {told}, not {code or 'SUCCESS'}")
    due = None if balance is None else Decimal(balance)
    hold(reply.balance == due, f"{delivery.path} is answered with a balance of {reply.balance}, not {due}")
    return told if due is None else f"{told}, balance {due}"


def _withdraw(bet_id: str, cents: int) -> WithdrawCall:
    return WithdrawCall(player_id=_ANN, bet_id=bet_id, amount_cents=cents, instance_id="i1", game="aviator")


def _deposit(bet_id: str, cents: int) -> DepositCall:
    return DepositCall(player_id=_ANN, bet_id=bet_id, amount_cents=cents, round_id="r1", instance_id="i1")


def _rollback(bet_id: str) -> RollbackCall:
    return RollbackCall(
        player_id=_ANN, bet_id=bet_id, tx_id=f"withdraw:bet:{bet_id}", round_id="r1", instance_id="i1", game="aviator"
    )


def _server(stage: _Stage) -> Iterator[str]:
    yield f"{stage.wallet['url']}, process {stage.wallet['pid']}, over SQLite"
    yield f"it knows the service's public key, SHA-256 {fingerprint(stage.keys.public_key)[:16]}…"
    for player_id, opening in ((_ANN, "100.00"), (_BOB, "50.00")):
        stage.ledger.open_account(player_id, Decimal(opening))
        yield f"opened {player_id} with {opening}"


def _balance(stage: _Stage) -> Iterator[str]:
    for player_id, balance in ((_ANN, "100.00"), (_BOB, "50.00")):
        yield f"{player_id}: {_answered(stage.service.send(BalanceCall(player_id=player_id)), balance)}"
    nobody = stage.service.send(BalanceCall(player_id="player-3"))
    yield f"player-3: {_answered(nobody, None, 'PLAYER_NOT_FOUND')}"


def _win(stage: _Stage) -> Iterator[str]:
    yield f"withdraw 5.00: {_answered(stage.service.send(_withdraw('bet-1', 500)), '95.00')}"
    yield f"deposit 12.50: {_answered(stage.service.send(_deposit('bet-1', 1250)), '107.50')}"
    stage.hold_state("bet-1", BetState.CLOSED)


def _loss(stage: _Stage) -> Iterator[str]:
    yield f"withdraw 10.00: {_answered(stage.service.send(_withdraw('bet-2', 1000)), '97.50')}"
    yield f"deposit 0, which closes the bet: {_answered(stage.service.send(_deposit('bet-2', 0)), '97.50')}"
    stage.hold_state("bet-2", BetState.CLOSED)


def _cancelled(stage: _Stage) -> Iterator[str]:
    yield f"withdraw 20.00: {_answered(stage.service.send(_withdraw('bet-3', 2000)), '77.50')}"
    yield f"rollback: {_answered(stage.service.send(_rollback('bet-3')), '97.50')}"
    stage.hold_state("bet-3", BetState.ROLLED_BACK)


def _repeated(stage: _Stage) -> Iterator[str]:
    yield f"withdraw 3.00: {_answered(stage.service.send(_REPEATED), '94.50')}"
    for _ in range(2):
        yield f"the very same bytes again: {_answered(stage.service.send(_REPEATED), '94.50')}"
    stage.hold_state("bet-4", BetState.OPEN)


def _too_early(stage: _Stage) -> Iterator[str]:
    early = _answered(stage.service.send(_rollback("bet-5")), "94.50", "BET_NOT_FOUND")
    yield f"rollback of a bet that nobody has seen: {early}"
    late = _answered(stage.service.send(_withdraw("bet-5", 700)), "94.50", "BET_ROLLED_BACK")
    yield f"its withdraw, late: {late}"
    stage.hold_state("bet-5", BetState.TOMBSTONE)


def _too_much(stage: _Stage) -> Iterator[str]:
    refused = _answered(stage.service.send(_withdraw("bet-6", 9451)), "94.50", "INSUFFICIENT_BALANCE")
    yield f"withdraw 94.51: {refused}"
    stage.hold_state("bet-6", BetState.DECLINED)


def _forged(stage: _Stage) -> Iterator[str]:
    jackpot = DepositCall(player_id=_BOB, amount_cents=1_000_000, tx_id="forged-1", action="JACKPOT")
    with WebhookCaller(stage.wallet["url"], generate_private_key(65537, 2048)) as stranger:
        refused = _answered(stranger.send(jackpot), None, "INVALID_SIGNATURE")
    yield f"a jackpot of 10000.00, signed by a stranger: {refused}"
    yield f"its log says why: {stage.reason_logged('INVALID_SIGNATURE')}"
    yield f"{_BOB}: {_answered(stage.service.send(BalanceCall(player_id=_BOB)), '50.00')}"


def _on_another_path(stage: _Stage) -> Iterator[str]:
    # The signature covers the body and not the path: taken at its word this would be a refund.
    replayed = stage.service.post("/rollback", encode_call(_REPEATED))
    yield f"the signed bytes of bet-4's withdraw, to /rollback: {_answered(replayed, '94.50', 'INVALID_REQUEST')}"
    stage.hold_state("bet-4", BetState.OPEN)


def _books(stage: _Stage) -> Iterator[str]:
    balances = {_ANN: 9450, _BOB: 5000}
    for player_id, cents in balances.items():
        kept = stage.ledger.balance(player_id)
        hold(kept == cents, f"{player_id} has {amount_from_cents(kept)}, not {amount_from_cents(cents)}")
        yield f"{player_id}: {amount_from_cents(cents)}"
    report = stage.ledger.verify()
    hold(report.sound, f"the books do not add up: {'; '.join(finding.detail for finding in report.findings)}")
    hold(report.bets == _STATES, f"the bets are {report.bets}")
    hold(
        report.balances_cents == sum(balances.values()) == -report.house_cents, "the players' money is not the house's"
    )
    yield f"{report.postings} postings, {report.calls} calls; bets: " + ", ".join(
        f"{number} {state}" for state, number in report.bets.items()
    )
    yield "verified: each balance is the sum of its postings, and no bet was debited or settled twice"
    kinds = [anomaly.kind for anomaly in stage.ledger.anomalies()]
    hold(bool(kinds), "no anomaly was kept")
    yield f"kept for a person to look at: {', '.join(kinds)}"


_SCENES: Scenes[_Stage] = (
    ("A wallet server, in a process of its own (game-operator serve)", _server),
    ("Balances asked for (player-balance)", _balance),
    ("A win (withdraw, deposit)", _win),
    ("A loss (withdraw, deposit of 0)", _loss),
    ("A cancelled bet (withdraw, rollback)", _cancelled),
    ("A withdraw that is repeated", _repeated),
    ("A rollback that comes before its withdraw", _too_early),
    ("A withdraw of more than there is", _too_much),
    ("A forged signature", _forged),
    ("A withdraw's bytes, posted to /rollback", _on_another_path),
    ("The books", _books),
)
