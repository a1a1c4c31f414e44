"""Which bets may have made a balance wrong: those since the last right one."""

from game_operator_testkit.sandbox.dealing.balances import BalanceBoard, PlayerBalance
from game_operator_testkit.sandbox.dealing.dealt import DealtBet
from testkit.tests.sandbox.dealing import bet


def bets(count: int, player_id: str = "p1") -> list[DealtBet]:
    planned = [bet(number, player_id=player_id) for number in range(1, count + 1)]
    return [DealtBet(planned=each) for each in planned]


def board_of(**opening: int) -> BalanceBoard:
    """Return a board that has the balances of *opening*."""
    board = BalanceBoard()
    for player_id, cents in opening.items():
        board.reported(player_id, cents)
    return board


def told(board: BalanceBoard, dealt: DealtBet, cents: int, moved: int | None) -> None:
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
    told(board, first, 9_500, -500)
    told(board, second, 9_000, -500)
    told(board, other, 9_500, -500)
    told(board, third, 8_499, -500)
    assert set(wrong(board)) == {"p1"}
    assert wrong(board)["p1"].suspects == (second, third)
    told(board, fourth, 1, -500)
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
