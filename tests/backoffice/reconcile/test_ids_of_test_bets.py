"""The ids of test bets have one whole shape, and nothing that is only like it has (docs/how-to/reconcile.md)."""

import pytest

from game_operator.backoffice.reconcile.judge import is_test_bet

STORM = "storm-bet-0123456789abcdef-0-12"
CERTIFY = "certify-3af39e24-C01-bet-1"


@pytest.mark.parametrize(
    "bet_id",
    [
        STORM,
        CERTIFY,
        "certify-00000000-F07-Bet-12",
        f"{CERTIFY}-x\n' OR 1=1",
        f"{CERTIFY}-".ljust(256, "x"),
        CERTIFY.swapcase(),
        "certify-3af39e24-B01-within-limits-bet-1",
        "certify-3af39e24-end-bet-1",
    ],
)
def test_what_our_tools_make(bet_id: str) -> None:
    """The run, where in it, a word and a number; a certification also tries odd ends."""
    assert is_test_bet(bet_id)


@pytest.mark.parametrize(
    "bet_id",
    [
        "",
        "bet-1",
        "bet-0123456789ab-1",
        "certify-3af39e24-C01",
        "certify-3af39e24-C01-bet-",
        "certify-3af39e2-C01-bet-1",
        "certify-3af39e241-C01-bet-1",
        "certify-3AF39E24-C01-bet-1",
        "certify-3af39e2g-C01-bet-1",
        "certify-3af39e24-C1-bet-1",
        "certify-3af39e24-c01-bet-1",
        "certify-3af39e24-C01-bet-x",
        "certify-3af39e24-other-bet-1",
        f"x{CERTIFY}",
        "storm-0123456789abcdef-0-12",
        "storm-bet-0123456789abcdef-0",
        "storm-bet-0123456789abcde-0-12",
        "storm-bet-0123456789abcdef0-0-12",
        "storm-bet-0123456789abcdeg-0-12",
        f"{STORM}\n",
        f"{STORM}-1",
        "storm-bet-0123456789abcdef--12",
        "storm-bet-0123456789abcdef-0-12".upper(),
    ],
)
def test_what_is_only_like_it(bet_id: str) -> None:
    """A genuine provider may call its bets so."""
    assert not is_test_bet(bet_id)
