"""
Holds what the service believes against what the wallet has, bet by bet and player by player.

States agree when CLOSED is CLOSED with that credit, OPEN is OPEN, ROLLED_BACK is ROLLED_BACK, a TOMBSTONE, DECLINED or
unseen, and refused is DECLINED or unseen. A balance agrees when it is the opening one and what the bets did to it.
A difference at a bet whose call the service itself gave up is expected: nobody repeated the call.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from game_operator.codes import BetState
from game_operator.ledger.api import BetRecord
from game_operator.money import amount_from_cents
from game_operator.sandbox.dealt import Dealt, DealtBet, ServiceState
from game_operator.sandbox.delivery import Sent

__all__ = ["Closing", "Difference", "audit", "history_of"]

_UNDONE = frozenset({BetState.ROLLED_BACK, BetState.TOMBSTONE, BetState.DECLINED})
#: More balances than these are not tried out one by one.
_MOST_POSSIBLE = 100_000
_MOST_BETS_TOLD = 20


@dataclass(frozen=True, slots=True)
class Closing:
    """
    What the wallet has at the end.

    Attributes:
        balances: The players' balances in cents; None for one that could not be had.
        bets: The bets of these players by id; None where only the wallet itself could tell.
        findings: What else is wrong with its books.
    """

    balances: Mapping[str, int | None]
    bets: Mapping[str, BetRecord] | None = None
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """
    Something that service and wallet do not agree on.

    Attributes:
        subject: The bet, claim or player, in words.
        service: What the service believes.
        wallet: What the wallet has or answered.
        expected: Whether the service itself is to blame: it gave a call up.
        history: Everything that was sent and heard about it, a line each.
    """

    subject: str
    service: str
    wallet: str
    expected: bool
    history: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.subject}: {self.service}; {self.wallet}"


def audit(
    dealt: Sequence[Dealt],
    opening: Mapping[str, int],
    closing: Closing,
    suspects: Mapping[str, Sequence[Dealt]] | None = None,
) -> list[Difference]:
    """
    Return all differences, those of bets before those of players.

    Args:
        dealt: What the service dealt.
        opening: The players' balances before, in cents.
        closing: What the wallet has now.
        suspects: For players whose balance went wrong on the way, the bets it may have gone wrong with.
    """
    found = list(_of_answers(dealt))
    if closing.bets is not None:
        found += _of_bets(dealt, closing.bets)
    found += _of_players(dealt, opening, closing, suspects or {})
    found += (Difference("the wallet's books", "should add up", finding, False, ()) for finding in closing.findings)
    return found


def history_of(dealt: Dealt, record: BetRecord | None = None) -> Iterator[str]:
    """Yield what was sent and heard about *dealt*, and what the wallet's ledger has, line by line."""
    yield _title(dealt)
    for sent in sorted(dealt.history, key=lambda sent: sent.post.serial):
        yield from _told(sent)
    if record is not None:
        yield f"  in the wallet's ledger: {_of_record(record)}"


def _of_answers(dealt: Iterable[Dealt]) -> Iterator[Difference]:
    for each in dealt:
        for problem in each.problems:
            yield Difference(_name(each), _belief(each), problem, False, tuple(history_of(each)))


def _of_bets(dealt: Iterable[Dealt], kept: Mapping[str, BetRecord]) -> Iterator[Difference]:
    known: set[str] = set()
    for each in dealt:
        if not isinstance(each, DealtBet):
            continue
        known.add(each.key)
        record = kept.get(each.key)
        if not _agree(each, record):
            wallet = f"the wallet has it {_of_record(record)}"
            yield Difference(_name(each), _belief(each), wallet, each.lost, tuple(history_of(each, record)))
    for bet_id in kept.keys() - known:
        wallet = f"the wallet has it {_of_record(kept[bet_id])}"
        yield Difference(f"bet {bet_id}", "the service never placed it", wallet, False, ())


def _agree(bet: DealtBet, record: BetRecord | None) -> bool:
    state = None if record is None else record.state
    match bet.state:
        case ServiceState.CLOSED:
            return record is not None and (state, record.wager_cents, record.won_cents) == (
                BetState.CLOSED, bet.planned.wager_cents, bet.planned.won_cents,
            )  # fmt: skip
        case ServiceState.OPEN:
            return record is not None and (state, record.wager_cents) == (BetState.OPEN, bet.planned.wager_cents)
        case ServiceState.ROLLED_BACK:
            return state is None or state in _UNDONE
        case _:
            return state in {None, BetState.DECLINED}


def _of_players(
    dealt: Iterable[Dealt], opening: Mapping[str, int], closing: Closing, suspects: Mapping[str, Sequence[Dealt]]
) -> Iterator[Difference]:
    of_player: defaultdict[str, list[Dealt]] = defaultdict(list)
    for each in dealt:
        of_player[each.player_id].append(each)
    for player_id, before in opening.items():
        theirs = of_player[player_id]
        now = closing.balances.get(player_id)
        due = before + sum(each.effect_cents for each in theirs)
        if now == due:
            continue
        expected = now is not None and now - before in _possible(theirs)
        told = "no balance could be had" if now is None else f"the wallet has {amount_from_cents(now)}"
        suspected = suspects.get(player_id) or [each for each in theirs if each.history]
        history = [line for each in suspected[:_MOST_BETS_TOLD] for line in history_of(each)]
        if len(suspected) > _MOST_BETS_TOLD:
            history.append(f"… and {len(suspected) - _MOST_BETS_TOLD} bets more")
        yield Difference(
            f"player {player_id}",
            f"opened with {amount_from_cents(before)}, so {amount_from_cents(due)} is due",
            told,
            expected,
            tuple(history),
        )


def _possible(dealt: Iterable[Dealt]) -> frozenset[int]:
    """Return what these bets may have done to a balance together; only those that were lost leave a choice."""
    sums = frozenset({0})
    for each in dealt:
        sums = frozenset(before + cents for before in sums for cents in each.possible_cents)
        if len(sums) > _MOST_POSSIBLE:
            break
    return sums


def _name(dealt: Dealt) -> str:
    return f"bet {dealt.key}" if isinstance(dealt, DealtBet) else f"claim {dealt.key}"


def _belief(dealt: Dealt) -> str:
    won = f" with {amount_from_cents(dealt.planned.won_cents)} won" if dealt.state is ServiceState.CLOSED else ""
    return f"the service has it {dealt.state}{won}"


def _of_record(record: BetRecord | None) -> str:
    if record is None:
        return "not at all"
    won = "" if record.won_cents is None else f", won {amount_from_cents(record.won_cents)}"
    return f"{record.state}, wager {amount_from_cents(record.wager_cents)}{won}"


def _title(dealt: Dealt) -> str:
    planned = dealt.planned
    if isinstance(dealt, DealtBet):
        wager = amount_from_cents(dealt.planned.wager_cents)
        return f"bet {dealt.key} of {dealt.player_id}, wager {wager}, planned to end {dealt.planned.end}"
    return f"claim {dealt.key} of {dealt.player_id}, {amount_from_cents(planned.won_cents)}"


def _told(sent: Sent) -> Iterator[str]:
    post = sent.post
    faults = f", {post.faults}" if post.faults else ""
    yield f"  #{post.serial} {sent.call.operation}, delivery {post.attempt}{faults}: {sent.answer}"
    yield f"      POST {post.path} {post.sent_for(post.signed).decode()}"
