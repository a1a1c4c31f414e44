"""The demo's first story, what the client can do: each chapter makes calls and holds answers against what is due."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from stat import S_IMODE
from typing import Any, assert_never

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from game_operator.cli.demonstration.chapters import AmissError, Chapter, hold, played
from game_operator.cli.keys import KeyFiles, fingerprint
from game_operator.client.sync import OperatorClient
from game_operator.codes import GrantErrorCode
from game_operator.errors import (
    AuthenticationError,
    FreeBetRejectedError,
    SessionTokenError,
)
from game_operator.models import BetNotFound, ClosedBet, OpenBet, RolledBackBet, RoundFound, RoundNotFound
from game_operator.protocol.operations import AnyBet, AnyRound
from game_operator.tokens import SessionTokenBuilder, launch_url

__all__ = ["told"]

_NO_SUCH_BET = "bet-that-never-was"
_DAY_MILLIS = 86_400_000
_LAUNCH_TEMPLATE = "https://play.example/?token={token}"


@dataclass(frozen=True, slots=True)
class _Stage:
    """What the story is played on: the client, and what the service said about itself when it started."""

    keys: KeyFiles
    service: dict[str, Any]
    client: OperatorClient

    @property
    def instance_id(self) -> str:
        return str(self.service["instance_id"])

    def grant(self, *, count: int) -> str:
        """Grant *count* free bets of 1.00 for a day, always by the same reference id; return the grant's id."""
        accepted = self.client.grant_free_bet(
            player_id="player-1",
            instance_id=self.instance_id,
            count=count,
            wager_amount_cents=100,
            expire_duration_millis=_DAY_MILLIS,
            reference_id="welcome-1",
        )
        return accepted.free_bet_id


_Scene = Callable[[_Stage], Iterator[str]]


def told(keys: KeyFiles, service: dict[str, Any]) -> Iterator[Chapter]:
    """Yield the story chapter by chapter, up to its end or to the first chapter with a problem."""
    connect = partial(OperatorClient, service["base_url"], service["operator_id"], trust_env=False)
    with connect(keys.private) as client:
        yield from played(_SCENES, _Stage(keys, service, client))


def _keys(stage: _Stage) -> Iterator[str]:
    key, mode = stage.keys.public_key, S_IMODE(stage.keys.private.stat().st_mode)
    yield f"RSA, {key.key_size} bits; the private key stays in a file of mode {mode:04o}"
    yield f"the service knows the public key, SHA-256 {fingerprint(key)[:16]}…"


def _process(stage: _Stage) -> Iterator[str]:
    yield f"{stage.service['base_url']}, process {stage.service['pid']}, operator {stage.service['operator_id']}"


def _games(stage: _Stage) -> Iterator[str]:
    games = stage.client.fetch_games()
    hold(len(games) >= 12, f"{len(games)} games, not at least 12")
    instances = [instance for game in games for instance in game.instances]
    currencies = sorted({instance.bet_config.currency for instance in instances})
    yield (
        f"{len(games)} games of {len({game.genre for game in games})} genres, "
        f"{len(instances)} instances in {', '.join(currencies)}"
    )
    for game in games[:3]:
        limits = game.instances[0].bet_config
        yield (
            f"{game.name}: {game.genre}, {game.status}, RTP {game.rtp} %, "
            f"wager {limits.min_wager} to {limits.max_wager} {limits.currency}"
        )


def _bets(stage: _Stage) -> Iterator[str]:
    ids = {state: stage.service["bet_ids"][state] for state in ("OPEN", "CLOSED", "ROLLED_BACK")}
    for state, bet_id in {**ids, "NOT_FOUND": _NO_SUCH_BET}.items():
        bet = stage.client.fetch_bet(bet_id)
        hold(bet.status == state, f"the bet {bet_id} is {bet.status}, not {state}")
        yield f"{state}: {_about(bet)}"


def _about(bet: AnyBet) -> str:
    match bet:
        case ClosedBet():
            return f"{bet.player_id} wagered {bet.wager_amount} and won {bet.won_amount}"
        case OpenBet():
            return f"{bet.player_id} wagered {bet.wager_amount}, not settled yet"
        case RolledBackBet():
            return f"{bet.player_id} wagered {bet.wager_amount} and got it back"
        case BetNotFound():
            return "no such bet, or older than 90 days"
        case _:
            assert_never(bet)


def _rounds(stage: _Stage) -> Iterator[str]:
    look_up = partial(stage.client.fetch_round_bets, instance_id=stage.instance_id)
    round_id, round_no = stage.service["round_id"], stage.service["round_no"]
    by_id = look_up(round_id=round_id)
    yield f"by id: {_bets_of(by_id)}"
    by_number = look_up(round_no=round_no)
    yield f"by number {round_no}: {_bets_of(by_number)}"
    hold(by_id == by_number, "the round by its number is another than by its id")
    missing = look_up(round_id="round-that-never-was")
    hold(isinstance(missing, RoundNotFound), "a round that never was is found")
    yield f"one that never was: {missing.status}"


def _bets_of(found: AnyRound) -> str:
    if not isinstance(found, RoundFound):
        raise AmissError("the round is not found")
    total = sum((bet.wager_amount for bet in found.bets), Decimal(0))
    return f"{found.status}, {len(found.bets)} bets, {total} wagered in all"


def _grant(stage: _Stage) -> Iterator[str]:
    yield f"5 free bets of 1.00 for player-1, valid for a day: granted as {stage.grant(count=5)}"


def _refusals(stage: _Stage) -> Iterator[str]:
    for label, code, count in (
        ("the same reference id again", GrantErrorCode.DUPLICATE_REFERENCE_ID, 5),
        ("51 free bets at once", GrantErrorCode.COUNT_TOO_HIGH, 51),
    ):
        try:
            stage.grant(count=count)
        except FreeBetRejectedError as rejected:
            hold(rejected.error_code == code, f"{label}: {rejected.error_code}, not {code}")
            where = "by the service" if rejected.attempts else "before it was sent"
            yield f"{label}: refused {where}, {rejected.error_code}"
            yield f"   “{rejected.message}”"
        else:
            raise AmissError(f"{label}: granted, not refused")


def _wrong_key(stage: _Stage) -> Iterator[str]:
    stranger = generate_private_key(65537, 2048)
    operator_id = stage.service["operator_id"]
    with OperatorClient(stage.service["base_url"], operator_id, stranger, trust_env=False) as client:
        try:
            client.fetch_games()
        except AuthenticationError as refused:
            yield f"HTTP {refused.status_code}, “{refused.message}”"
        else:
            raise AmissError("a key that is not registered was accepted")


def _session_token(stage: _Stage) -> Iterator[str]:
    tokens = SessionTokenBuilder(stage.service["operator_id"], stage.keys.private)
    balance = Decimal("12.50")
    token = tokens.build(player_id="player-1", instance_id=stage.instance_id, balance=balance, name="Ann")
    claims = tokens.decode(token, instance_id=stage.instance_id)
    hold((claims.player_id, claims.balance) == ("player-1", balance), "the token does not say what was put into it")
    minutes = (claims.expires_at - claims.issued_at).seconds // 60
    yield f"for {claims.player_id} with a balance of {claims.balance}, valid for {minutes} minutes, signed with RS256"
    yield f"launch address: {launch_url(_LAUNCH_TEMPLATE, token)[:40]}…, {len(token)} characters"
    try:
        tokens.decode(token, instance_id="another-instance")
    except SessionTokenError:
        yield "decoded for another instance: refused"
    else:
        raise AmissError("the token is taken for an instance that it was not made for")


_SCENES: tuple[tuple[str, _Scene], ...] = (
    ("A key pair", _keys),
    ("The service, played on this machine", _process),
    ("The games (fetch-games)", _games),
    ("A bet in each state (fetch-bet)", _bets),
    ("A round (fetch-round-bets)", _rounds),
    ("Free bets (free-bet/grant)", _grant),
    ("Free bets, refused", _refusals),
    ("A call signed with the wrong key", _wrong_key),
    ("A session token (its contents are assumed)", _session_token),
)
