"""
Holds what the service believes against what the wallet has, bet by bet and player by player.

States agree when CLOSED is CLOSED with that credit, OPEN is OPEN, ROLLED_BACK is ROLLED_BACK, a TOMBSTONE, DECLINED or
unseen, and refused is DECLINED or unseen. A balance agrees when it is the opening one and what the bets did to it.
A difference is expected where the service itself gave a call up, and only if it is one that this call can make.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from game_operator.codes import BetState
from game_operator.ledger.api import BetRecord
from game_operator.models.webhooks import Reply
from game_operator.money import amount_from_cents
from game_operator.sandbox.dealing.balances import BalanceBoard
from game_operator.sandbox.dealing.dealt import Dealt, DealtBet, ServiceState
from game_operator.sandbox.storm.bet_fate import Fate, belief, fates_of, given_up, history_of, record_told, subject

_UNDONE: Final = frozenset({BetState.ROLLED_BACK, BetState.TOMBSTONE, BetState.DECLINED})
#: More balances of one player than these are not tried out one by one.
_MOST_POSSIBLE: Final = 50_000
_MOST_BETS_TOLD: Final = 20
_MOST_BETS_NAMED: Final = 3
_HTTP_OK: Final = 200
_KEPT_POINTS: Final = 16


@dataclass(frozen=True, slots=True)
class Finding:
    """
    The first balance of a player that the wallet told wrongly.

    Attributes:
        told_cents: What it told.
        due_cents: What it should have told.
        suspects: The bets since the last balance that was right.
    """

    told_cents: int
    due_cents: int
    suspects: tuple[Dealt, ...]


class Watch:
    """
    A dealer's listener that narrows a wrong balance down.

    A balance told while nothing else of its player is under way must be what the answers so far amount to. The bets
    since the last balance that was right are the suspects of the first that is wrong.

    Args:
        opening: What the players have before, in cents.
    """

    def __init__(self, opening: Mapping[str, int]) -> None:
        self._board = BalanceBoard(kept_points=_KEPT_POINTS, kept_players=max(1, len(opening)))
        self._under_way: defaultdict[str, int] = defaultdict(int)
        self._touched: defaultdict[str, dict[int, Dealt]] = defaultdict(dict)
        #: By player, the first wrong balance.
        self.wrong: dict[str, Finding] = {}
        self._told = 0
        for player_id, cents in opening.items():
            # Otherwise the first balance told would be believed, whatever it is.
            self._board.told(player_id, at_millis=0, balance_cents=cents)

    def begin(self, dealt: Dealt, may_move_cents: int) -> None:
        """A call is sent for the first time."""
        self._under_way[dealt.player_id] += 1
        self._touched[dealt.player_id][id(dealt)] = dealt
        self._board.begin(dealt.player_id, may_move_cents)

    def told(self, dealt: Dealt, reply: Reply, *, repeated: bool) -> None:
        """A reply was heard."""
        if reply.balance_cents is not None:
            self._told += 1
            self._board.told(
                dealt.player_id, at_millis=self._told, balance_cents=reply.balance_cents, repeated=repeated
            )

    def end(self, dealt: Dealt, moved_cents: int | None) -> None:
        """A call was answered definitely or given up."""
        player_id = dealt.player_id
        self._board.end(player_id, moved_cents)
        self._under_way[player_id] -= 1
        if self._under_way[player_id] or player_id in self.wrong:
            return
        seen = self._board.player(player_id)
        if seen is not None and (first := seen.first_wrong) is not None:
            due_cents = first.told_cents if first.expected_cents is None else first.expected_cents
            self.wrong[player_id] = Finding(first.told_cents, due_cents, tuple(self._touched[player_id].values()))
        self._touched[player_id] = {id(dealt): dealt}


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
    wrong: Mapping[str, Finding] | None = None,
) -> list[Difference]:
    """
    Return all differences, those of bets before those of players.

    Args:
        dealt: What the service dealt.
        opening: The players' balances before, in cents.
        closing: What the wallet has now.
        wrong: By player, the first balance that the wallet told wrongly on the way.
    """
    found = list(_of_answers(dealt))
    if closing.bets is not None:
        found += _of_bets(dealt, closing.bets)
    of_player: defaultdict[str, list[Dealt]] = defaultdict(list)
    for each in dealt:
        of_player[each.player_id].append(each)
    for player_id, before in opening.items():
        player = _Player(player_id, before, of_player[player_id], (wrong or {}).get(player_id))
        found += player.differences(closing)
    found += (Difference("the wallet's books", "should add up", finding, False, ()) for finding in closing.findings)
    return found


def audit_unfinished(dealt: Sequence[Dealt], wrong: Mapping[str, Finding]) -> list[Difference]:
    """
    Return what is wrong already with a run that broke off, and whose balances cannot be had any more.

    *wrong* has, by player, the first balance that was told wrongly while nothing else was under way.
    """
    found = list(_of_answers(dealt))
    for player_id, finding in wrong.items():
        theirs = [each for each in dealt if each.player_id == player_id]
        found.append(_Player(player_id, 0, theirs, finding).told_wrongly(finding))
    return found


def _of_answers(dealt: Iterable[Dealt]) -> Iterator[Difference]:
    for each in dealt:
        for problem in (*each.problems, *_other_statuses(each), *_unreadable(each)):
            yield Difference(subject(each), belief(each), problem, False, tuple(history_of(each)))


def _other_statuses(dealt: Dealt) -> Iterator[str]:
    statuses = {sent.answer.status for sent in dealt.history if sent.post.is_genuine}
    for status in sorted(statuses - {None, _HTTP_OK}, key=str):
        yield f"a call was answered with HTTP {status}, which must be 200 always (spec §4.1)"


def _unreadable(dealt: Dealt) -> Iterator[str]:
    genuine = (sent.answer for sent in dealt.history if sent.post.is_genuine)
    # Of another status that is said already.
    for answer in genuine:
        if answer.unreadable and answer.status == _HTTP_OK:
            yield f"a call was answered, and not with a reply of spec §2.1: {answer.problem}"
            return


def _of_bets(dealt: Iterable[Dealt], kept: Mapping[str, BetRecord]) -> Iterator[Difference]:
    known: set[str] = set()
    for each in dealt:
        if not isinstance(each, DealtBet):
            continue
        known.add(each.key)
        record = kept.get(each.key)
        if not _agree(each, each.state, record):
            expected = any(_agree(each, fate.state, record) for fate in fates_of(each)[1:])
            wallet = f"the wallet has it {record_told(record)}"
            yield Difference(subject(each), belief(each), wallet, expected, tuple(history_of(each, record)))
    for bet_id in sorted(kept.keys() - known):
        wallet = f"the wallet has it {record_told(kept[bet_id])}"
        yield Difference(f"bet {bet_id}", "the service never placed it", wallet, False, ())


def _agree(bet: DealtBet, believed: ServiceState, record: BetRecord | None) -> bool:
    state = None if record is None else record.state
    match believed:
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


@dataclass(frozen=True, slots=True)
class _Player:
    """One player: the balance before in cents, what was dealt to them, and what the wallet told them wrongly."""

    player_id: str
    before: int
    dealt: Sequence[Dealt]
    wrong: Finding | None

    def differences(self, closing: Closing) -> Iterator[Difference]:
        now = closing.balances.get(self.player_id)
        due = self.before + sum(each.effect_cents for each in self.dealt)
        if now == due:
            yield from self._told_wrongly()
            return
        explained = None if now is None else self._explained(now, closing.bets)
        if explained is not None:
            yield from explained
            return
        told = "no balance could be had" if now is None else f"the wallet has {amount_from_cents(now)}"
        opened = f"opened with {amount_from_cents(self.before)}, so {amount_from_cents(due)} is due"
        yield Difference(self._subject, opened, f"{told}{self._blamed()}", False, self._history())

    def _blamed(self) -> str:
        """Return, for people, which bets the balance may have gone wrong with; how many, if they are not few."""
        if self.wrong is None:
            return ""
        if len(self.wrong.suspects) > _MOST_BETS_NAMED:
            return f", wrong since one of {len(self.wrong.suspects)} bets"
        return f", wrong since {' or '.join(map(subject, self.wrong.suspects))}"

    @property
    def _subject(self) -> str:
        return f"player {self.player_id}"

    def _told_wrongly(self) -> Iterator[Difference]:
        """Yield a balance that was told wrongly on the way; a call that was given up leaves open what is wrong."""
        if self.wrong is not None and not any(map(given_up, self.dealt)):
            yield self.told_wrongly(self.wrong)

    def told_wrongly(self, wrong: Finding) -> Difference:
        """Return the difference that *wrong* is."""
        service = f"{amount_from_cents(wrong.due_cents)} was due on the way"
        wallet = f"the wallet told {amount_from_cents(wrong.told_cents)}{self._blamed()}"
        return Difference(self._subject, service, wallet, False, self._history())

    def _explained(self, now: int, kept: Mapping[str, BetRecord] | None) -> list[Difference] | None:
        """Return expected differences that add up to the balance *now*, or None if none do."""
        fates = [(each, _fates(each, kept)) for each in self.dealt]
        if not any(map(given_up, self.dealt)):
            return None
        known = sum(of_one[0].cents for _, of_one in fates)
        doubts = [(each, [(fate.cents - of_one[0].cents, fate) for fate in of_one[1:]]) for each, of_one in fates]
        sums = _sums([(each, others) for each, others in doubts if others])
        missing = now - self.before - known
        if isinstance(sums, range):
            return [self._too_many(now)] if missing in sums else None
        return self._named(sums[missing]) if missing in sums else None

    def _named(self, chain: "_Chain") -> list[Difference]:
        return [
            Difference(
                subject(each), belief(each), f"by the balance of player {self.player_id} it {fate.told}", True,
                tuple(history_of(each)),
            )
            for each, fate in chain
        ]  # fmt: skip

    def _too_many(self, now: int) -> Difference:
        service = f"opened with {amount_from_cents(self.before)}, and too many calls were given up to say what is due"
        return Difference(self._subject, service, f"the wallet has {amount_from_cents(now)}", True, self._history())

    def _history(self) -> tuple[str, ...]:
        sent = [each for each in self.dealt if each.history]
        suspected = sent if self.wrong is None else self.wrong.suspects
        history = [line for each in suspected[:_MOST_BETS_TOLD] for line in history_of(each)]
        if len(suspected) > _MOST_BETS_TOLD:
            history.append(f"… and {len(suspected) - _MOST_BETS_TOLD} bets more")
        return tuple(history)


#: Which bets and claims met with another fate than the service believes.
_Chain = tuple[tuple[Dealt, Fate], ...]


def _fates(dealt: Dealt, kept: Mapping[str, BetRecord] | None) -> list[Fate]:
    """Return what may have become of *dealt*; where the wallet's ledger tells its state, only what fits that."""
    fates = fates_of(dealt)
    if kept is None or not isinstance(dealt, DealtBet):
        return fates
    return [fate for fate in fates if _agree(dealt, fate.state, kept.get(dealt.key))] or fates[:1]


def _sums(doubts: Sequence[tuple[Dealt, list[tuple[int, Fate]]]]) -> Mapping[int, _Chain] | range:
    """Return what *doubts* may add up to in cents, each sum with the fewest that do; only the bounds if too many."""
    sums: dict[int, _Chain] = {0: ()}
    for each, others in doubts:
        longer: dict[int, _Chain] = {}
        for before, chain in sums.items():
            for cents, fate in others:
                candidate = (*chain, (each, fate))
                if len(longer.get(before + cents, candidate)) >= len(candidate):
                    longer[before + cents] = candidate
        for cents, chain in longer.items():
            if cents not in sums or len(sums[cents]) > len(chain):
                sums[cents] = chain
        if len(sums) > _MOST_POSSIBLE:
            low = sum(min(0, *(cents for cents, _ in others)) for _, others in doubts)
            high = sum(max(0, *(cents for cents, _ in others)) for _, others in doubts)
            return range(low, high + 1)
    return sums
