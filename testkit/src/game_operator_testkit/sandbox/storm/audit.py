"""
Compares what the service believes with what the wallet has, bet by bet and player by player.

States agree when CLOSED is CLOSED with that credit, OPEN is OPEN, ROLLED_BACK is ROLLED_BACK, a TOMBSTONE, DECLINED or
unseen, and refused is DECLINED or unseen. A balance agrees when it is the opening one and what the bets did to it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from game_operator.codes import BetState
from game_operator.ledger.api import BetRecord
from game_operator.money import amount_from_cents
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.sandbox.dealing.balances import PlayerBalance
from game_operator_testkit.sandbox.dealing.dealt import Dealt, DealtBet, ServiceState

_UNDONE: Final = frozenset({BetState.ROLLED_BACK, BetState.TOMBSTONE, BetState.DECLINED})
_MOST_BETS_SHOWN: Final = 20
_MOST_BETS_NAMED: Final = 3
_HTTP_OK: Final = 200


@dataclass(frozen=True, slots=True)
class Closing:
    """
    What the wallet has at the end.

    Attributes:
        balances: The players' balances in cents; None for one that could not be read.
        bets: The bets of these players by id; None where only the wallet itself knows them.
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
        history: Every post about it and its answer, a line each.
        gap_cents: How much too much the player has by it, less than 0 for too little; 0 if it moved no money.
        faults: The faults that occurred in its calls; of a player's balance, in those of the bets in question.
    """

    subject: str
    service: str
    wallet: str
    history: tuple[str, ...]
    gap_cents: int = 0
    faults: tuple[Fault, ...] = ()

    @property
    def gap(self) -> str:
        """The cents in words; "" if it moved no money."""
        if not self.gap_cents:
            return ""
        return f"{amount_from_cents(abs(self.gap_cents))} too {'much' if self.gap_cents > 0 else 'little'}"

    def __str__(self) -> str:
        met = f"faults: {', '.join(self.faults)}" if self.faults else ""
        return f"{self.subject}: {'; '.join(filter(None, (self.service, self.wallet, self.gap, met)))}"


def audit(
    dealt: Sequence[Dealt], opening: Mapping[str, int], closing: Closing, wrong: Mapping[str, PlayerBalance]
) -> list[Difference]:
    """
    Return all differences, those of bets before those of players.

    Args:
        dealt: What the service dealt.
        opening: The players' balances before, in cents.
        closing: What the wallet has now.
        wrong: The players for whom the wallet reported a wrong balance on the way.
    """
    found = list(_of_answers(dealt))
    if closing.bets is not None:
        found += _of_bets(dealt, closing.bets)
    of_player: defaultdict[str, list[Dealt]] = defaultdict(list)
    for each in dealt:
        of_player[each.player_id].append(each)
    for player_id, before in opening.items():
        now = closing.balances.get(player_id)
        found += _of_balance(player_id, before, now, of_player[player_id], wrong.get(player_id))
    found += (Difference("the wallet's books", "should add up", finding, ()) for finding in closing.findings)
    return found


def audit_answers(dealt: Iterable[Dealt], wrong: Mapping[str, PlayerBalance]) -> list[Difference]:
    """
    Return what the answers alone show, of a storm that ended before its books could be read.

    A call without a definite answer shows nothing: it may have moved money or not.
    """
    found = list(_of_answers(dealt))
    for balance in wrong.values():
        found += _on_the_way(balance)
    return found


def _of_answers(dealt: Iterable[Dealt]) -> Iterator[Difference]:
    for each in dealt:
        genuine = (answer for post, answer in each.history if post.is_genuine)
        # An answer of another status is a difference already.
        unreadable = next((answer for answer in genuine if answer.reply is None and answer.status == _HTTP_OK), None)
        problems = [*each.problems, *each.wrong_statuses()]
        if unreadable is not None:
            problems.append(f"a call was answered, and not with a reply of spec §2.1: {unreadable.problem}")
        for problem in problems:
            history = tuple(each.history_in_words())
            yield Difference(each.subject, each.belief, problem, history, faults=tuple(each.faults))


def _of_bets(dealt: Iterable[Dealt], kept: Mapping[str, BetRecord]) -> Iterator[Difference]:
    known: set[str] = set()
    for each in dealt:
        if not isinstance(each, DealtBet):
            continue
        known.add(each.key)
        record = kept.get(each.key)
        if not _agree(each, record):
            history = list(each.history_in_words())
            if record is not None:
                history.append(f"  in the wallet's ledger: {_in_words(record)}")
            wallet, gap_cents = f"the wallet has it {_in_words(record)}", _moved_cents(record) - each.moved_cents
            gap_cents += each.jackpot_cents
            yield Difference(each.subject, each.belief, wallet, tuple(history), gap_cents, tuple(each.faults))
    for bet_id in sorted(kept.keys() - known):
        record = kept[bet_id]
        wallet, gap_cents = f"the wallet has it {_in_words(record)}", _moved_cents(record)
        yield Difference(f"bet {bet_id}", "the service never placed it", wallet, (), gap_cents)


def _moved_cents(record: BetRecord | None) -> int:
    """Return what the wallet's ledger moved for a bet, without its jackpot."""
    if record is None or record.state not in (BetState.OPEN, BetState.CLOSED):
        return 0
    return (record.won_cents or 0) - record.wager_cents


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


def _in_words(record: BetRecord | None) -> str:
    """Return what the wallet's ledger has of a bet."""
    if record is None:
        return "not at all"
    won = "" if record.won_cents is None else f", won {amount_from_cents(record.won_cents)}"
    return f"{record.state}, wager {amount_from_cents(record.wager_cents)}{won}"


def _of_balance(
    player_id: str, before: int, now: int | None, dealt: Sequence[Dealt], wrong: PlayerBalance | None
) -> Iterator[Difference]:
    """Yield the difference of a balance: the one *now*, or else the first that was wrong on the way."""
    due = before + sum(each.moved_cents for each in dealt)
    if now == due:
        yield from _on_the_way(wrong)
        return
    wallet = "its balance could not be read" if now is None else f"the wallet has {amount_from_cents(now)}"
    opened = f"opened with {amount_from_cents(before)}, so {amount_from_cents(due)} is due"
    in_question = [each for each in dealt if each.history] if wrong is None else wrong.suspects
    yield _of_player(player_id, opened, wallet + _suspected(wrong), 0 if now is None else now - due, in_question)


def _on_the_way(wrong: PlayerBalance | None) -> Iterator[Difference]:
    """Yield the first wrong balance that the wallet reported, if it reported one."""
    if wrong is not None and wrong.mistakes:
        first = wrong.mistakes[0]
        expected_cents = first.expected_cents or 0
        service = f"{amount_from_cents(expected_cents)} was due on the way"
        wallet = f"the wallet reported {amount_from_cents(first.reported_cents)}{_suspected(wrong)}"
        gap_cents = first.reported_cents - expected_cents
        yield _of_player(wrong.player_id, service, wallet, gap_cents, wrong.suspects)


def _of_player(player_id: str, service: str, wallet: str, gap_cents: int, in_question: Sequence[Dealt]) -> Difference:
    """Return the difference of a balance, with the bets and claims that may have made it wrong."""
    faults = tuple(dict.fromkeys(fault for each in in_question for fault in each.faults))
    history = [line for each in in_question[:_MOST_BETS_SHOWN] for line in each.history_in_words()]
    if len(in_question) > _MOST_BETS_SHOWN:
        history.append(f"… and {len(in_question) - _MOST_BETS_SHOWN} bets more")
    return Difference(f"player {player_id}", service, wallet, tuple(history), gap_cents, faults)


def _suspected(wrong: PlayerBalance | None) -> str:
    """Return, for people, which bets the balance may have gone wrong with; how many, if they are not few."""
    if wrong is None:
        return ""
    if len(wrong.suspects) > _MOST_BETS_NAMED:
        return f", first wrong after one of {len(wrong.suspects)} bets"
    return f", first wrong after {' or '.join(each.subject for each in wrong.suspects)}"
