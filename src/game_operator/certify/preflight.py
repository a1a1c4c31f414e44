"""What is asked of a wallet before a certification, so that a wrong address, key or player is told at once."""

from collections.abc import Callable, Mapping
from typing import Final

from game_operator.certify.engine.run import KnownBalance
from game_operator.certify.engine.stage import MOST_BALANCE_CENTS
from game_operator.certify.report.mistakes import TURNING_AWAY
from game_operator.codes import WebhookErrorCode
from game_operator.errors import ConfigurationError, RequestNotSentError, shown
from game_operator.models.webhooks import LONGEST_ID, BalanceCall, problem_of_id
from game_operator.money import amount_from_cents
from game_operator.protocol.webhook import BodyWriter
from game_operator.provider.requests import Heard, Request

#: The least that both players must have, in cents: scenarios scale to what there is.
_LEAST_CENTS: Final = 1_000
#: And the most, so that what is won besides can still be moved.
_MOST_CENTS: Final = MOST_BALANCE_CENTS // 10
_SHOWN_BYTES: Final = 200
_REMEDIES: Final[Mapping[str, str]] = {
    WebhookErrorCode.INVALID_SIGNATURE: "The wallet takes our calls for forged. It needs the public half of the key "
    "that you certify with, and has to look for RSA-SHA256 (PKCS#1 v1.5) over the body's bytes as they came, in the "
    "header signature (or the one that the profile names), in URL-safe Base64 without padding (assumed, decision "
    "0011).",
    WebhookErrorCode.INVALID_REQUEST: "The wallet does not understand a player-balance. Mind the address, a prefix "
    "such as /wallet, and pass the profile with which it reads its bodies.",
    WebhookErrorCode.SYSTEM_ERROR: "The wallet fails, or has another key than ours. Look into its log.",
}


_UNREACHABLE: Final = "Nothing was sent: check address, DNS, firewall and TLS, and that the wallet runs."


def check_wallet(
    hear: Callable[[Request], Heard], writer: BodyWriter, players: tuple[KnownBalance, KnownBalance], url: str
) -> None:
    """
    Read both balances; a wallet that answers in no form at all is left to the scenarios.

    Raises:
        RequestNotSentError: Nobody can reach the wallet.
        ConfigurationError: Address, key or players cannot work.
    """
    if players[0].player_id == players[1].player_id:
        raise ConfigurationError("player_id and other_player_id are the same. Pass two players, each with money.")
    for player in players:
        problem = problem_of_id(player.player_id, LONGEST_ID)
        if problem:
            raise ConfigurationError(f"The player_id {shown(player.player_id)} is none: it {problem}.")
    for player in players:
        call = BalanceCall(player_id=player.player_id)
        heard = hear(Request(f"the balance of {player.player_id}", "/player-balance", writer.encoded(call)))
        if heard.unreachable:
            raise RequestNotSentError(
                heard.problem, elapsed_seconds=heard.elapsed_ms / 1_000, timed_out=heard.timed_out, remedy=_UNREACHABLE
            )
        _check_answer(heard, player, url)


def check_second(hear: Callable[[Request], Heard], writer: BodyWriter, player: KnownBalance) -> None:
    """
    Hold that the second process of the wallet is one: it has the same player, with the same balance.

    Raises:
        RequestNotSentError: Nobody can reach it.
        ConfigurationError: It is another wallet, or none.
    """
    body = writer.encoded(BalanceCall(player_id=player.player_id))
    heard = hear(Request("the balance, of the second process", "/player-balance", body, at="second"))
    if heard.unreachable:
        raise RequestNotSentError(
            heard.problem, elapsed_seconds=heard.elapsed_ms / 1_000, timed_out=heard.timed_out, remedy=_UNREACHABLE
        )
    if player.cents is not None and heard.balance_cents != player.cents:
        told = "no balance" if heard.balance_cents is None else amount_from_cents(heard.balance_cents)
        raise ConfigurationError(
            f"The second process reports {told} for the player {shown(player.player_id)}, and the first "
            f"{amount_from_cents(player.cents)}.",
            setting="second_url",
            remedy="Pass another process of the same wallet, on the same database.",
        )


def _check_answer(heard: Heard, player: KnownBalance, url: str) -> None:
    if heard.status in (404, 405) and not heard.succeeded:
        where = f"{shown(url)} is" if url else "This is"
        raise ConfigurationError(
            f"{where} no wallet: player-balance was answered with HTTP {heard.status}. Pass the address that "
            "/withdraw and the others are below; mind a prefix, such as /wallet."
        )
    if heard.reply is None and heard.status in TURNING_AWAY:
        raise ConfigurationError(
            f"A player-balance was turned away with HTTP {heard.status}, and {_shown_body(heard.body)}. If something "
            "stands before the wallet, let this machine through, or pass what it asks for as a header "
            "(--header 'NAME: VALUE'). If the wallet itself takes our calls for forged, give it the public half of the "
            "key that you certify with."
        )
    if heard.reply is None:
        return
    if heard.code == WebhookErrorCode.PLAYER_NOT_FOUND:
        raise ConfigurationError(
            f"The wallet knows no player {shown(player.player_id)}. Open an account with some money, or pass the id of "
            "a test player."
        )
    if heard.code is not None:
        told = _REMEDIES.get(heard.code, "Look into the wallet's log.")
        raise ConfigurationError(f"A player-balance was refused with {shown(heard.code)}. {told}")
    cents = heard.balance_cents or 0
    if cents < _LEAST_CENTS:
        raise ConfigurationError(
            f"The player {shown(player.player_id)} has {amount_from_cents(cents)}. Give both players at least "
            f"{amount_from_cents(_LEAST_CENTS)}: the scenarios move it, and put it back."
        )
    if cents > _MOST_CENTS:
        raise ConfigurationError(
            f"The player {shown(player.player_id)} has {amount_from_cents(cents)}. Give both players at most "
            f"{amount_from_cents(_MOST_CENTS)}: the scenarios move all of it and more, and an amount has an end."
        )
    player.cents = cents


def _shown_body(body: bytes) -> str:
    """Return the beginning of what is no reply: it may say who it was that answered."""
    text = " ".join(body[:_SHOWN_BYTES].decode(errors="backslashreplace").split())
    return f"the answer is no reply: {shown(text)}" if text else "an empty answer"
