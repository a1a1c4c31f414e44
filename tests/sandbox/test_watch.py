"""The watch: whose balance went wrong, and since which bets."""

from game_operator.models.webhooks import Reply
from game_operator.money import Cents
from game_operator.sandbox.dealing.dealt import DealtBet
from game_operator.sandbox.storm.audit import Watch
from tests.sandbox.dealing import bet, round_of


def bets(count: int, player_id: str = "p1") -> list[DealtBet]:
    planned = [bet(number, player_id=player_id) for number in range(1, count + 1)]
    return [DealtBet(planned=each, round=round_of(each)) for each in planned]


def told(watch: Watch, dealt: DealtBet, cents: int, moved: int | None, *, repeated: bool = False) -> None:
    """One call of *dealt*, by itself, that should move *moved* and is answered with the balance *cents*."""
    watch.begin(dealt, moved or -500)
    watch.told(dealt, Reply(balance_cents=Cents(cents)), repeated=repeated)
    watch.end(dealt, moved)


def test_right_balances_are_no_finding() -> None:
    """Each follows from the one before."""
    watch = Watch({"p1": 1_000})
    first, second = bets(2)
    told(watch, first, 500, -500)
    told(watch, second, 400, -100)
    told(watch, first, 900, 500)
    assert watch.wrong == {}


def test_the_very_first_balance_is_held_against_the_opening_one() -> None:
    """It is not believed just because it is the first."""
    watch = Watch({"p1": 1_000})
    (first,) = bets(1)
    told(watch, first, 499, -500)
    assert watch.wrong["p1"].told_cents == 499
    assert watch.wrong["p1"].due_cents == 500
    assert watch.wrong["p1"].suspects == (first,)


def test_the_suspects_are_those_since_the_last_right_balance() -> None:
    """The bet before, for what it was answered may have been right and wrong a moment later; none before that."""
    watch = Watch({"p1": 10_000, "p2": 10_000})
    first, second, third, fourth = bets(4)
    (other,) = bets(1, "p2")
    told(watch, first, 9_500, -500)
    told(watch, second, 9_000, -500)
    told(watch, other, 9_500, -500)
    told(watch, third, 8_499, -500)
    assert set(watch.wrong) == {"p1"}
    assert watch.wrong["p1"].suspects == (second, third)
    told(watch, fourth, 1, -500)
    assert watch.wrong["p1"].suspects == (second, third)


def test_calls_that_overlap_are_suspects_together() -> None:
    """Nobody can tell which of them it was."""
    watch = Watch({"p1": 1_000})
    first, second = bets(2)
    watch.begin(first, -500)
    watch.begin(second, -500)
    watch.told(second, Reply(balance_cents=Cents(500)), repeated=False)
    watch.end(second, -500)
    assert watch.wrong == {}
    watch.told(first, Reply(balance_cents=Cents(200)), repeated=False)
    watch.end(first, -500)
    assert set(watch.wrong["p1"].suspects) == {first, second}


def test_a_call_that_was_given_up_leaves_the_next_balance_open() -> None:
    """It moved its money or not; from the next balance on it is known again."""
    watch = Watch({"p1": 1_000})
    first, second, third = bets(3)
    watch.begin(first, -500)
    watch.end(first, None)
    told(watch, second, 250, -250)
    assert watch.wrong == {}
    told(watch, third, 251, -250)
    assert watch.wrong["p1"].suspects == (second, third)


def test_a_reply_without_a_balance_says_nothing() -> None:
    """An ERROR need not carry one (spec §2.1)."""
    watch = Watch({"p1": 1_000})
    (first,) = bets(1)
    watch.begin(first, -500)
    watch.told(first, Reply(code="LIMIT_EXCEEDED"), repeated=False)
    watch.end(first, 0)
    told(watch, first, 1_000, 0)
    assert watch.wrong == {}
