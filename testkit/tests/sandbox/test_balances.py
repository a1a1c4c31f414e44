"""What is told of balances beside what they should be: what is called wrong, and what is not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from game_operator_testkit.sandbox.dealing.balances import BalanceBoard, PlayerBalance, ReportedBalance
from game_operator_testkit.sandbox.dealing.dealt import DealtBet
from testkit.tests.sandbox.dealing import bet

Step = Callable[[BalanceBoard], None]


def begin(may_move_cents: int = 0) -> Step:
    return lambda board: board.begin("p", may_move_cents)


def told(balance_cents: int, *, repeated: bool = False) -> Step:
    return lambda board: board.reported("p", balance_cents, repeated=repeated)


def end(moved_cents: int | None = 0) -> Step:
    return lambda board: board.end("p", moved_cents)


def accept() -> Step:
    return lambda board: board.accept("p")


def call(moves_cents: int, balance_cents: int) -> list[Step]:
    """A call that nothing overlaps, and that moves what it should."""
    return [begin(moves_cents), told(balance_cents), end(moves_cents)]


def refused(would_move_cents: int, balance_cents: int) -> list[Step]:
    """A call that nothing overlaps, and that is refused with a balance."""
    return [begin(would_move_cents), told(balance_cents), end(0)]


def after(*steps: Step | Sequence[Step]) -> BalanceBoard:
    """Return a board after these steps, of which some are told together."""
    board = BalanceBoard()
    for step in steps:
        for single in (step,) if callable(step) else step:
            single(board)
    return board


def standing(board: BalanceBoard) -> PlayerBalance:
    """Return how it stands with the only player."""
    (player,) = board.players()
    return player


def mistake(reported_cents: int, expected_cents: int) -> ReportedBalance:
    """Return the first mistake of a player."""
    return ReportedBalance(reported_cents, expected_cents, added_cents=reported_cents - expected_cents)


@pytest.mark.parametrize(
    ("steps", "expected_cents"),
    [
        pytest.param([told(1000)], 1000, id="the first balance is believed"),
        pytest.param(
            [told(1000), begin(-300), told(700), told(700), end(-300)], 700, id="a duplicate that moved nothing"
        ),
        pytest.param(
            [told(1000), *call(-300, 700), *call(500, 1200), told(700, repeated=True), told(1200)],
            1200,
            id="a late repeat answered as it was at first",
        ),
        pytest.param(
            [told(1000), begin(-300), begin(-200), told(500), told(700), end(-200), end(-300)],
            500,
            id="two calls, whose answers crossed",
        ),
        pytest.param(
            [told(1000), begin(-300), begin(300), told(1000), end(300), told(1000), end(-300)],
            1000,
            id="a withdraw whose answer was lost, and its rollback",
        ),
        pytest.param(
            [begin(-300), begin(-200), told(700), told(500), end(-300), end(-200), told(500)],
            500,
            id="nothing was known, two calls crossed, and the next answer decides",
        ),
    ],
)
def test_a_right_wallet_is_never_called_wrong(steps: Sequence[Step], expected_cents: int) -> None:
    """Repeats, refusals, rollbacks and crossing answers: all explained, and the balance known at the end."""
    player = standing(after(*steps))
    assert (player.agrees, player.expected_cents) == (True, expected_cents)


@pytest.mark.parametrize(
    ("steps", "reported_cents", "expected_cents"),
    [
        pytest.param([told(1000), told(1001)], 1001, 1000, id="a cent from nowhere"),
        pytest.param([told(1000), *call(-300, 400)], 400, 700, id="a withdraw that took twice"),
        pytest.param(
            [told(1000), begin(500), told(1500), told(2000), end(500)], 2000, 1500, id="a duplicate that paid again"
        ),
        pytest.param([told(1000), begin(0), told(1300), end(0)], 1300, 1000, id="a forged call that moved"),
        pytest.param(
            [told(1000), begin(-300), begin(-200), told(700), told(800), end(-300), end(-200)],
            800,
            500,
            id="two calls at once, of which one was lost (a lost update)",
        ),
        pytest.param(
            [told(1000), begin(-300), begin(-200), told(700), told(400), end(-300), end(-200)],
            400,
            500,
            id="two calls at once, and a balance that no order of them leaves",
        ),
    ],
)
def test_a_wrong_balance_is_found(steps: Sequence[Step], reported_cents: int, expected_cents: int) -> None:
    """It is named with what it should have been."""
    player = standing(after(*steps))
    assert not player.agrees
    assert player.mistakes == (mistake(reported_cents, expected_cents),)


def test_what_should_be_goes_on_after_a_wrong_balance() -> None:
    """Each balance that changes the difference is a mistake, and no other: here once more, with a right one between."""
    player = standing(after(told(1000), call(500, 2000), call(0, 1500), call(-100, 1900)))
    assert player.expected_cents == 1400
    assert player.mistakes == (mistake(2000, 1500), mistake(1900, 1400))


def test_a_call_under_way_leaves_open_what_is_right() -> None:
    """Its answer may have been lost after the wallet acted: both balances are possible until it has ended."""
    board = after(told(1000), begin(-300), told(1000), told(700), told(1000))
    assert standing(board).agrees
    assert standing(board).expected_cents is None
    assert standing(board).under_way == 1
    assert standing(after(told(1000), begin(-300), told(999))).mistakes == (mistake(999, 1000),)


def test_after_a_call_that_was_given_up_the_next_balance_is_believed() -> None:
    """Nobody will know whether it moved money."""
    board = after(told(1000), begin(-300), end(None), told(700), told(701))
    assert standing(board).mistakes == (mistake(701, 700),)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([told(1000), told(1500), accept(), told(1500), told(1500)], id="between calls"),
        pytest.param([told(1000), begin(), told(1500), accept(), end(), told(1500), told(1500)], id="during a call"),
    ],
)
def test_a_balance_that_somebody_changed_can_be_accepted(steps: Sequence[Step]) -> None:
    """A top-up by hand is no fault of the wallet; nothing is wrong afterwards, until something is."""
    board = after(*steps)
    assert (standing(board).agrees, standing(board).expected_cents) == (True, 1500)
    told(1501)(board)
    assert not standing(board).agrees


@dataclass
class Wallet:
    """A wallet of one player that is right, or doubles what it pays."""

    balance_cents: int = 1_000
    factor: int = 1
    seen: set[int] = field(default_factory=set)

    def take(self, number: int, moves_cents: int) -> tuple[int, int]:
        """Return what was moved, and the balance afterwards; a repeat moves nothing."""
        if number not in self.seen and self.balance_cents + moves_cents >= 0:
            self.seen.add(number)
            self.balance_cents += moves_cents * (self.factor if moves_cents > 0 else 1)
        return (moves_cents if number in self.seen else 0), self.balance_cents


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    moves=st.lists(st.integers(-400, 400), min_size=1, max_size=12),
    # Per call: when it reaches the wallet, when its answer comes, how often it is delivered.
    times=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3)), min_size=12, max_size=12),
)
def test_a_right_wallet_is_not_called_wrong_in_any_order(moves: list[int], times: list[tuple[int, int, int]]) -> None:
    """Calls start one after another, arrive late, are answered late and are repeated; the sums are the wallet's."""
    board, wallet = BalanceBoard(), Wallet()
    board.reported("p", wallet.balance_cents)
    events: list[tuple[int, int, str, int]] = []
    for number, (_, (late, slow, often)) in enumerate(zip(moves, times, strict=False)):
        events.append((number, 0, "begin", number))
        events += [(number + late + again, 1, "act", number) for again in range(often)]
        events.append((number + late + slow + often, 2, "end", number))
    answers: dict[int, list[tuple[int, int]]] = {number: [] for number in range(len(moves))}
    for _, _, kind, number in sorted(events):
        if kind == "begin":
            board.begin("p", moves[number])
        elif kind == "act":
            answers[number].append(wallet.take(number, moves[number]))
        else:
            for _, balance_cents in answers[number]:
                board.reported("p", balance_cents)
            board.end("p", answers[number][-1][0])
    board.reported("p", wallet.balance_cents)
    player = standing(board)
    assert player.agrees
    assert player.expected_cents == wallet.balance_cents


@settings(max_examples=50, deadline=None)
@given(moves=st.lists(st.integers(-400, 400).filter(bool), min_size=1, max_size=12))
def test_a_wallet_that_doubles_what_it_pays_is_called_wrong(moves: list[int]) -> None:
    """Calls one after another, each answered: the first payment gives it away, and nothing before does."""
    board, wallet = BalanceBoard(), Wallet(factor=2)
    board.reported("p", wallet.balance_cents)
    for number, moves_cents in enumerate(moves):
        board.begin("p", moves_cents)
        moved, balance_cents = wallet.take(number, moves_cents)
        board.reported("p", balance_cents)
        board.end("p", moved)
        assert standing(board).agrees == (max(moves[: number + 1]) < 0)


@pytest.mark.parametrize("between", [499, 500])
def test_how_long_a_balance_is_known_again(between: int) -> None:
    """A repeat that is answered as at first agrees, unless so many others came between."""
    board = after(told(1000), call(500, 1500), *[told(1500)] * (between - 1), told(1000, repeated=True))
    assert standing(board).agrees == (between == 499)


def test_so_many_calls_at_once_that_anything_is_possible() -> None:
    """Twelve calls have 4,096 outcomes: told balances go unjudged then, and their sum is still held against them."""
    board = after(told(10**6), *[begin(-(2**number)) for number in range(12)], told(10**6 + 1))
    assert standing(board).agrees
    for number in range(12):
        end(-(2**number))(board)
    assert standing(board).mistakes == (mistake(10**6 + 1, 10**6 - 4095),)


# --- who is suspected -------------------------------------------------------------------------------------------------


def bets(count: int, player_id: str = "p1") -> list[DealtBet]:
    planned = [bet(number, player_id=player_id) for number in range(1, count + 1)]
    return [DealtBet(planned=each) for each in planned]


def board_of(**opening: int) -> BalanceBoard:
    """Return a board that has the balances of *opening*."""
    board = BalanceBoard()
    for player_id, cents in opening.items():
        board.reported(player_id, cents)
    return board


def answered(board: BalanceBoard, dealt: DealtBet, cents: int, moved: int | None) -> None:
    """One call of *dealt*, by itself, that should move *moved* and is answered with the balance *cents*."""
    board.begin(dealt.player_id, moved or -500, dealt)
    board.reported(dealt.player_id, cents)
    board.end(dealt.player_id, moved, dealt)


def wrong(board: BalanceBoard) -> dict[str, PlayerBalance]:
    """Return the players with a wrong balance."""
    return {player.player_id: player for player in board.players() if not player.agrees}


def test_the_suspects_are_those_since_the_last_right_balance() -> None:
    """The bet before, for what it was answered may have been right and wrong a moment later; none before that."""
    board = board_of(p1=10_000, p2=10_000)
    first, second, third, fourth = bets(4)
    (other,) = bets(1, "p2")
    answered(board, first, 9_500, -500)
    answered(board, second, 9_000, -500)
    answered(board, other, 9_500, -500)
    answered(board, third, 8_499, -500)
    assert set(wrong(board)) == {"p1"}
    assert wrong(board)["p1"].suspects == (second, third)
    answered(board, fourth, 1, -500)
    assert wrong(board)["p1"].suspects == (second, third)


def test_calls_that_overlap_are_suspects_together() -> None:
    """Nobody can tell which of them it was."""
    board = board_of(p1=1_000)
    first, second = bets(2)
    board.begin("p1", -500, first)
    board.begin("p1", -500, second)
    board.reported("p1", 500)
    board.end("p1", -500, second)
    assert wrong(board) == {}
    board.reported("p1", 200)
    board.end("p1", -500, first)
    assert set(wrong(board)["p1"].suspects) == {first, second}
