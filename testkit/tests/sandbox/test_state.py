"""The service behind a sandbox: what it plans, and what it keeps of what it saw. No wallet, no network."""

import json
from decimal import Decimal

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from game_operator import BetConfig, ConfigurationError, GameInfo, GameInstance, GrantAccepted
from game_operator.models import GrantRequest
from game_operator.models.webhooks import MAX_AMOUNT_CENTS
from game_operator.protocol.http import HttpReply
from game_operator_testkit.provider.delivery import Carried, Post, answer_in
from game_operator_testkit.provider.faults import Fault
from game_operator_testkit.provider.kept_connections import ClosedUnansweredError
from game_operator_testkit.sandbox import Sandbox
from game_operator_testkit.sandbox.dealing.plan import BetEnd, PlannedRound
from game_operator_testkit.sandbox.service.state import SandboxService
from testkit.tests.sandbox.support import DAY_MILLIS, NOW_MILLIS
from tests.support.calls import withdraw
from tests.support.times import StoppedClock

pytestmark = pytest.mark.slow

INSTANCE = "0123456789abcdef01234567"


@pytest.fixture
def sandbox(public_key: RSAPublicKey, clock: StoppedClock) -> Sandbox:
    """A sandbox that does not run: its service alone is asked."""
    return Sandbox(operator_public_key=public_key, clock=clock)


@pytest.fixture
def service(sandbox: Sandbox) -> SandboxService:
    return sandbox.service


def planned(
    service: SandboxService, wager_cents: int = 500, won_cents: int | None = None, cancel: bool = False
) -> PlannedRound:
    return service.requested.round(
        player_id="p1", wager_cents=wager_cents, won_cents=won_cents, cancel=cancel, instance_id=None
    )


def test_a_round_is_planned(service: SandboxService, sandbox: Sandbox) -> None:
    """One bet, placed now, in the instance that is the default."""
    item = planned(service, won_cents=700)
    (bet,) = item.bets
    assert (item.instance_id, item.game, item.at_millis) == (sandbox.instance_id, "comet-crash", NOW_MILLIS)
    assert (bet.wager_cents, bet.won_cents, bet.end, bet.at_millis) == (500, 700, BetEnd.CLOSED, NOW_MILLIS)
    assert planned(service, cancel=True).bets[0].end is BetEnd.ROLLED_BACK


def test_a_way_to_repeat_has_a_name(service: SandboxService) -> None:
    """One that is none is refused where it is set."""
    service.retries = "ten"
    with pytest.raises(ConfigurationError, match="The retries 'four' are unknown"):
        service.retries = "four"
    assert service.retries == "ten"


def granted(sandbox: Sandbox, **changes: object) -> str:
    terms: dict[str, object] = {
        "player_id": "p1", "instance_id": sandbox.instance_id, "count": 5, "wager_amount_cents": 100,
        "expire_duration_millis": DAY_MILLIS, "reference_id": "r1",
    }  # fmt: skip
    request = GrantRequest.model_validate(terms | changes)
    accepted = sandbox.world.grant(request, now_millis=NOW_MILLIS)
    assert isinstance(accepted, GrantAccepted)
    return accepted.free_bet_id


@pytest.mark.parametrize("count", [1, 50])
def test_free_bets_are_played_the_same_each_time(service: SandboxService, sandbox: Sandbox, count: int) -> None:
    """A claim that failed is made again with the same winnings, in the same round."""
    free_bet_id = granted(sandbox, count=count)
    first, second = service.requested.claim(free_bet_id), service.requested.claim(free_bet_id)
    assert first == second
    assert len(first.bets) == len({bet.id for bet in first.bets}) == count
    assert {bet.wager_cents for bet in first.bets} == {100}
    assert sandbox.world.next_round_no(sandbox.instance_id) == sandbox.round_no + 3, (
        "one for the claim, after the empty"
    )


def test_free_bets_of_a_game_with_boundless_wins(service: SandboxService, sandbox: Sandbox) -> None:
    """All of them together win no more than one deposit can move."""
    rich = BetConfig(
        min_wager=Decimal(1), max_wager=Decimal(10), default_wager=Decimal(1), currency="EUR", max_win=Decimal(10**15)
    )
    instance = GameInstance(id=INSTANCE, name="Rich", active=True, bet_config=rich)
    game = GameInfo(
        id="rich", name="Rich", status="ACTIVE", provider_name="P", rtp=Decimal(10**15), genre="Other",
        instances=(instance,),
    )  # fmt: skip
    sandbox.world.add_game(game)
    claim = service.requested.claim(granted(sandbox, instance_id=INSTANCE, count=50, wager_amount_cents=1_000_000))
    assert 0 < claim.won_cents <= MAX_AMOUNT_CENTS


def test_a_claim_under_way_keeps_others_out(service: SandboxService, sandbox: Sandbox) -> None:
    """Until it is over; one that was planned before another was paid comes too late."""
    free_bet_id = granted(sandbox)
    claim, late = service.requested.claim(free_bet_id), service.requested.claim(free_bet_id)
    dealer = service.dealer(claim)
    with pytest.raises(ConfigurationError, match="being claimed just now"):
        service.dealer(late)
    service.played(claim, dealer, [])
    again = service.dealer(late)
    order = again.next()
    assert order is not None
    said = json.dumps({"type": "SUCCESS", "balance": 1, "timestamp": 7}).encode()
    again.answered(order, [answer_in(post, HttpReply(200, {}, said)) for post in order.posts])
    service.played(late, again, [])
    with pytest.raises(ConfigurationError, match="claimed already"):
        service.dealer(claim)


def carried(
    post: Post, problem: str = "", status: int | None = 200, *, sent_again: bool = False
) -> tuple[Post, Carried]:
    """Return a post that is over, and what came of it."""
    answer = None if status is None else HttpReply(status, {"a": "b"}, b"{}")
    closed = ClosedUnansweredError(1, 0.0) if sent_again else None
    headers = ((b"signature", b"x"),)
    return post, Carried(post.request, headers, answer, problem, 0.25, 7, "http://w/withdraw", closed=closed)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        pytest.param(
            carried(Post(withdraw(), attempt=3, manner=Fault.RESET), "reset", None),
            ("valid", None, "reset", "delivery 3; reset"), id="a repeat that was reset",
        ),
        pytest.param(
            carried(Post(withdraw()), sent_again=True),
            ("valid", 200, "", "sent twice: the wallet closed a kept connection"), id="a closed connection",
        ),
        pytest.param(
            carried(Post(withdraw(), manner=Fault.REPLY_LOST), "reply lost"),
            ("valid", 200, "reply-lost", "reply lost"), id="a lost reply",
        ),
        pytest.param(
            carried(Post(withdraw(), extra=Fault.OTHER_CONTENT)),
            ("valid", 200, "other-content", "must be refused"), id="other content",
        ),
    ],
)  # fmt: skip
def test_what_was_seen_is_kept(service: SandboxService, seen: tuple[Post, Carried], told: tuple[object, ...]) -> None:
    """What really came back, what was laid over it, and what is to be expected of it."""
    exchange = service.saw(*seen)
    assert (exchange.signature, exchange.status, exchange.fault, exchange.note) == told
    assert (exchange.player_id, exchange.bet_id, exchange.path, exchange.at_millis) == ("p1", "b1", "/withdraw", 7)
    assert exchange.request_body == seen[1].request.body
    assert (exchange.elapsed_ms, exchange.direction) == (250.0, "webhook")
    assert service.live.recent() == [exchange]
