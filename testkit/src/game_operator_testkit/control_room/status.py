"""
The status bar of every page: faults, repeats, the key in use, and how the wallet is.

Everything is read from values that the service keeps ready, so that a page does not become slower by it.
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from game_operator.text import clean, iso_time
from game_operator_testkit.provider.faults import FAULTS
from game_operator_testkit.sandbox.dealing.balances import ReportedBalance
from game_operator_testkit.sandbox.dealing.deliveries import retry_preset
from game_operator_testkit.sandbox.service.wallet_health import WalletAnswer, WalletHealth

if TYPE_CHECKING:
    from game_operator_testkit.sandbox.server import Sandbox

Tone = Literal["good", "bad", "warn", ""]

#: Bytes of a fingerprint that are enough to tell two keys of one service apart.
_SHORT_BYTES: Final = 4
_TITLES: Final = {info.name: info.title for info in FAULTS}
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_UNITS: Final = ((_MINUTE_MS, 1_000, "s"), (_HOUR_MS, _MINUTE_MS, "min"), (48 * _HOUR_MS, _HOUR_MS, "h"))


@dataclass(frozen=True, slots=True)
class LastError:
    """
    The last error: of the wallet, of a call that got no answer, or of a balance.

    Attributes:
        text: What was answered to which call, or whose balance is wrong.
        at_millis: When.
        number: The call in the live log; 0 if it is not there, or no longer.
    """

    text: str
    at_millis: int
    number: int


def status_of(sandbox: "Sandbox") -> dict[str, Any]:  # Any: values of a template.
    """Return what the bar shows."""
    service = sandbox.service
    plan, health, keys = service.faults.plan, service.health.now, service.keys_if_made
    wallet, tone = _wallet(sandbox.wallet_url, health)
    return {
        "preset": plan.preset,
        "faults": [_TITLES[fault] for fault in dict.fromkeys((*plan.rates, *plan.nth))],
        "retries": retry_preset(service.retries),
        "key": "" if keys is None else short(keys.fingerprint),
        "period": service.key_history.now,
        "wallet": wallet,
        "tone": tone,
        "answered": health.last,
        "error": _last_error(sandbox, health.last_error),
    }


def short(fingerprint: str) -> str:
    """Return the beginning of a fingerprint: ``AB:CD:EF:01``."""
    return fingerprint[: 3 * _SHORT_BYTES - 1]


def ago(at_millis: int) -> str:
    """Return how long ago something was by the machine's clock, in one unit: ``3 s ago``."""
    elapsed_ms = max(0, time.time_ns() // 1_000_000 - at_millis)
    for most, unit_ms, unit in _UNITS:
        if elapsed_ms < most:
            return f"{elapsed_ms // unit_ms} {unit} ago"
    return f"{elapsed_ms // (24 * _HOUR_MS)} days ago"


def _wallet(url: str | None, health: WalletHealth) -> tuple[str, Tone]:
    """Return how the wallet is, and how that is coloured."""
    if url is None:
        return "none configured", ""
    if health.silent_since_millis is not None:
        return f"no answer since {iso_time(health.silent_since_millis)[11:19]}", "bad"
    if health.last is None:
        return "not asked yet", ""
    if _is_fine(health.last):
        return "answering", "good"
    return f"answers {_answer(health.last)}", "bad"


def _is_fine(answer: WalletAnswer) -> bool:
    is_reply = answer.code is not None and (answer.status or 0) < 400
    return is_reply and answer.code not in {"INVALID_SIGNATURE", "SYSTEM_ERROR"}


def _answer(answer: WalletAnswer) -> str:
    if answer.status is None:
        return "no answer"
    if answer.is_wrongly_accepted:
        return "SUCCESS to a call that must be refused"
    return answer.code or f"HTTP {answer.status} without a reply"


def _last_error(sandbox: "Sandbox", answer: WalletAnswer | None) -> LastError | None:
    """Return the last error or the last balance that went wrong, whichever is later; None without any."""
    found = [] if answer is None else [_error(sandbox, answer)]
    if mistake := sandbox.service.balances.latest_mistake():
        found.append(_wrong_balance(sandbox, *mistake))
    return max(found, key=lambda each: (each.at_millis, each.number), default=None)


def _wrong_balance(sandbox: "Sandbox", player_id: str, point: ReportedBalance) -> LastError:
    call = sandbox.live.exchange(point.number)
    # The service may keep another time than the machine, by which all else here goes.
    at_millis = point.at_millis if call is None else call.at_millis + round(call.elapsed_ms)
    return LastError(f"wrong balance of {clean(player_id)}", at_millis, call.number if call else 0)


def _error(sandbox: "Sandbox", answer: WalletAnswer) -> LastError:
    text = f"{_answer(answer)} to {answer.path[1:]}" if answer.path else "the wallet could not be reached"
    return LastError(text, answer.at_millis, answer.number if sandbox.live.exchange(answer.number) else 0)
