"""Players, bets, rounds and games may be called anything: on every page a name is text."""

from decimal import Decimal
from urllib.parse import quote

import httpx
import pytest

from game_operator import ClosedBet, GameInfo
from game_operator.ledger import MemoryLedger
from game_operator.models import BetConfig, GameInstance
from game_operator_testkit.sandbox import Sandbox
from testkit.tests.control_room.support import EVIL, EVIL_ESCAPED, page, play
from testkit.tests.sandbox.support import DAY_MILLIS
from tests.support.times import StoppedClock

pytestmark = pytest.mark.outside

_INSTANCE = "a" * 24


@pytest.fixture
def evil(own: Sandbox, at_home: httpx.Client, wallet_url: str, ledger: MemoryLedger) -> Sandbox:
    """A sandbox in which a player, a bet, a round, a grant and a game have a script for a name."""
    now_millis = own.service.clock()
    own.wallet_url = wallet_url
    limits = BetConfig(
        min_wager=Decimal(1), max_wager=Decimal(2), default_wager=Decimal(1), currency=EVIL, max_win=Decimal(9)
    )
    instance = GameInstance(id=_INSTANCE, name=EVIL, active=True, bet_config=limits)
    named = {"id": EVIL, "name": EVIL, "provider_name": EVIL, "genre": EVIL, "status": EVIL}
    own.world.add_game(GameInfo(instances=(instance,), **named))
    bet = {"reference_id": EVIL, "player_id": EVIL, "game": EVIL, "round_id": EVIL, "instance_id": EVIL}
    own.world.add_bet(ClosedBet.model_validate(bet | {"wager": 1, "won": 2, "timestamp": now_millis}))
    own.world.add_round(round_id=EVIL, round_no=7, instance_id=EVIL, game=EVIL, started_at_millis=now_millis)
    own.service.balances.reported(EVIL, 100)
    own.service.balances.reported(EVIL, 101)
    return own


@pytest.mark.parametrize(
    ("path", "least"),
    [
        (f"/?genre={quote(EVIL)}&instance={_INSTANCE}", 8),
        ("/live", 1),
        ("/live/1", 1),
        ("/bets", 2),
        (f"/bets?id={quote(EVIL)}", 2),
        (f"/bets?instance_id={quote(EVIL)}&round_no=7", 2),
        ("/free-bets", 1),
        ("/wallet", 4),
    ],
)
def test_a_name_is_text(evil: Sandbox, at_home: httpx.Client, path: str, least: int) -> None:
    """It is shown, escaped, as often as it should be, and nowhere as it is."""
    location = play(at_home, player_id=EVIL).headers["location"]
    refused = play(at_home, player_id=EVIL, wager="x")
    for source in (page(at_home, path).source, page(at_home, location).source, refused.text):
        assert EVIL not in source
        assert EVIL_ESCAPED in source
    assert page(at_home, path).source.count(EVIL_ESCAPED) >= least


def test_old_bets_are_not_listed(evil: Sandbox, at_home: httpx.Client) -> None:
    """Those older than 90 days (spec §8)."""
    assert EVIL_ESCAPED in page(at_home, "/bets").source
    evil.service.clock = StoppedClock(evil.service.clock() + 91 * DAY_MILLIS)
    assert "There are no bets." in page(at_home, "/bets").text
