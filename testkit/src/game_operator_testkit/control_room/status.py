"""
The status bar of every page: faults, repeats, the key in use, and the newest call to the wallet.

A page does not become slower by it: of the live log it reads no more than the newest webhook.
"""

import time
from typing import TYPE_CHECKING, Any, Final

from game_operator_testkit.control_room.outcomes import row
from game_operator_testkit.provider.faults import FAULTS
from game_operator_testkit.sandbox.dealing.deliveries import retry_preset

if TYPE_CHECKING:
    from game_operator_testkit.sandbox.server import Sandbox

#: Bytes of a fingerprint that are enough to tell two keys of one service apart.
_SHORT_BYTES: Final = 4
_TITLES: Final = {info.name: info.title for info in FAULTS}
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_UNITS: Final = ((_MINUTE_MS, 1_000, "s"), (_HOUR_MS, _MINUTE_MS, "min"), (48 * _HOUR_MS, _HOUR_MS, "h"))


def status_of(sandbox: "Sandbox") -> dict[str, Any]:  # Any: values of a template.
    """Return what the bar shows."""
    service = sandbox.service
    plan, keys, newest = service.faults.plan, service.keys_if_made, sandbox.live.newest_webhook
    return {
        "preset": plan.preset,
        "faults": [_TITLES[fault] for fault in dict.fromkeys((*plan.rates, *plan.nth))],
        "retries": retry_preset(service.retries),
        "key": "" if keys is None else short(keys.fingerprint),
        "newest": None if newest is None else row(newest),
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
