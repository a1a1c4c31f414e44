"""Before the first scenario: whether the address is a wallet's, the key its own, and both players have money."""

from collections.abc import Mapping
from typing import Final, Literal

from game_operator.codes import WebhookErrorCode
from game_operator.errors import ConfigurationError, RequestNotSentError, shown
from game_operator.money import amount_from_cents
from game_operator_testkit.certifier.engine.balances import MOST_BALANCE_CENTS
from game_operator_testkit.certifier.engine.calls import Player
from game_operator_testkit.certifier.engine.observed import Observed
from game_operator_testkit.certifier.engine.restoring import balance_reply
from game_operator_testkit.certifier.engine.run import Run
from game_operator_testkit.certifier.engine.stage import Stage
from game_operator_testkit.certifier.report.verdicts import TURNING_AWAY
from game_operator_testkit.provider.delivery import Carried
from game_operator_testkit.provider.requests import Form, Seal

#: The least that both players must have, in cents: scenarios scale to what there is.
_LEAST_CENTS: Final = 1_000
#: And the most, so that what is won besides can still be moved.
_MOST_CENTS: Final = MOST_BALANCE_CENTS // 10
_SHOWN_BYTES: Final = 200
_BASE64: Final[tuple[Form, ...]] = ("standard padded", "standard", "url-safe padded")
_HEADERS: Final = ("signature", "x-signature", "x-webhook-signature", "x-hub-signature-256", "x-request-signature")
#: What a wallet that refuses our signature may expect.
_OTHER_FORMS: Final = {f"{form} Base64": Seal(form=form) for form in _BASE64} | {
    f"the header {name}": Seal(header=name) for name in _HEADERS
}
_REMEDIES: Final[Mapping[str, str]] = {
    WebhookErrorCode.INVALID_SIGNATURE: "The wallet says that our signature is wrong. It needs the public half of "
    "the key that you certify with, and has to look for RSA-SHA256 (PKCS#1 v1.5) over the body's bytes as they came, "
    "in the header {header}, in capitals or not, in URL-safe Base64 without padding (assumed, decision 0011). If your "
    "provider sends another header, name it in the profile: signature_header.",
    WebhookErrorCode.INVALID_REQUEST: "The wallet does not understand a player-balance. Mind the address, a prefix "
    "such as /wallet, and pass the profile with which it reads its bodies.",
    WebhookErrorCode.SYSTEM_ERROR: "The wallet fails, or has another key than ours. Look into its log.",
}


def check_wallet(run: Run, url: str, *, with_second: bool) -> None:
    """
    Read both balances, and one of them from the second process too, if there is one and *with_second* is set.

    A wallet whose answers cannot be read is left to the scenarios.

    Raises:
        RequestNotSentError: The wallet cannot be reached.
        ConfigurationError: Address, key or players cannot work, or the second process is not one of this wallet.
    """
    with run.outside() as at:
        at.observed = Observed()  # What is seen for the first time is a scenario's to note.
        for player in (at.player, at.other):
            heard = _balance(at, player)
            if heard.code == WebhookErrorCode.INVALID_SIGNATURE:
                _check_other_forms(at)
            run.known[player.id] = _checked_cents(heard, player.id, url, at.profile.signature_header)
        if with_second and run.certification.supplies.second_url is not None:
            _check_second(at, run.known[at.player.id])


def _check_second(at: Stage, known_cents: int | None) -> None:
    """Hold that the second process has the balance that the first one reported."""
    heard = _balance(at, at.player, "second")
    if known_cents is not None and heard.balance_cents != known_cents:
        reported = "no balance" if heard.balance_cents is None else amount_from_cents(heard.balance_cents)
        raise ConfigurationError(
            f"The second process reports {reported} for the player {shown(at.player.id)}, and the first "
            f"{amount_from_cents(known_cents)}.",
            setting="second_url",
            remedy="Pass another process of the same wallet, on the same database.",
        )


def _check_other_forms(at: Stage) -> None:
    """Hold that the wallet, which refused our signature, refuses it in other forms too: else that is the reason."""
    for form, seal in _OTHER_FORMS.items():
        heard = at.send(at.balance_request("a balance check", seal=seal))
        if heard.reply is not None and heard.code != WebhookErrorCode.INVALID_SIGNATURE:
            raise ConfigurationError(
                f"A player-balance was refused with 'INVALID_SIGNATURE', and accepted with its signature in {form}. It "
                f"belongs in the header {at.profile.signature_header}, in URL-safe Base64 without padding (assumed, "
                "decision 0011). Let the wallet take it so. If your provider sends another header, name it in the "
                "profile: signature_header."
            )


def _balance(at: Stage, player: Player, place: Literal["wallet", "second"] = "wallet") -> Carried:
    heard = balance_reply(at, player, place)
    if heard.unreachable:
        raise RequestNotSentError(
            heard.problem,
            elapsed_seconds=heard.elapsed_seconds,
            timed_out=heard.timed_out,
            remedy=heard.remedy,
        )
    return heard


def _no_wallet(url: str, answer: str) -> ConfigurationError:
    where = f"{shown(url)} is" if url else "This is"
    return ConfigurationError(
        f"{where} not a wallet: player-balance was answered with {answer}. Pass the address that /withdraw and the "
        "others are below; mind a prefix, such as /wallet."
    )


def _checked_cents(heard: Carried, player_id: str, url: str, header: str) -> int | None:
    """Return the player's balance; None if the answer cannot be read."""
    if heard.status in (404, 405) and not heard.succeeded:
        raise _no_wallet(url, f"HTTP {heard.status}")
    if heard.reply is None and heard.status in TURNING_AWAY:
        # The beginning of an answer that is not a reply may say who answered.
        text = " ".join(heard.body[:_SHOWN_BYTES].decode(errors="backslashreplace").split())
        body = f"the answer is not a reply: {shown(text)}" if text else "an empty answer"
        raise ConfigurationError(
            f"A player-balance was turned away with HTTP {heard.status}, and {body}. If something "
            "stands before the wallet, let this machine through, or pass what it asks for as a header "
            "(--header 'NAME: VALUE'). If the wallet itself says that the signature is wrong, give it the public half "
            "of the key that you certify with."
        )
    if heard.reply is None:
        if heard.status < 400 and heard.body.lstrip().startswith(b"<"):
            raise _no_wallet(url, f"HTTP {heard.status} and a web page")
        return None
    if heard.code == WebhookErrorCode.PLAYER_NOT_FOUND:
        raise ConfigurationError(
            f"The wallet does not know the player {shown(player_id)}. Open an account with some money, or pass "
            "the id of a test player."
        )
    if heard.code is not None:
        told = _REMEDIES.get(heard.code, "Look into the wallet's log.").format(header=header)
        raise ConfigurationError(f"A player-balance was refused with {shown(heard.code)}. {told}")
    cents = heard.balance_cents or 0
    if not _LEAST_CENTS <= cents <= _MOST_CENTS:
        raise ConfigurationError(
            f"The player {shown(player_id)} has {amount_from_cents(cents)}. Give both players at least "
            f"{amount_from_cents(_LEAST_CENTS)} and at most {amount_from_cents(_MOST_CENTS)}: the scenarios move all "
            "of it and more, and put it back. `game-operator ledger adjust`, for example, gives or takes money in a "
            "ledger of this package."
        )
    return cents
