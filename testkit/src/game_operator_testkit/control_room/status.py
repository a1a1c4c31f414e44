"""
The status bar of every page: faults, repeats, the key in use, and the newest call to the wallet.

A page does not become slower by it: of the live log it reads no more than the newest webhook.
"""

from typing import TYPE_CHECKING, Any, Final

from game_operator_testkit.control_room.outcomes import row
from game_operator_testkit.provider.faults import FAULTS
from game_operator_testkit.sandbox.dealing.deliveries import retry_preset

if TYPE_CHECKING:
    from game_operator_testkit.sandbox.server import Sandbox

#: Bytes of a fingerprint that are enough to tell two keys of one service apart.
_SHORT_BYTES: Final = 4
_TITLES: Final = {info.name: info.title for info in FAULTS}


def status_of(sandbox: "Sandbox") -> dict[str, Any]:  # Any: values of a template.
    """Return what the bar shows."""
    service = sandbox.service
    plan, newest = service.faults.plan, sandbox.live.newest_webhook
    return {
        "preset": plan.preset,
        "faults": [_TITLES[fault] for fault in dict.fromkeys((*plan.rates, *plan.nth))],
        "retries": retry_preset(service.retries),
        "key": short(service.keys.fingerprint),
        "newest": None if newest is None else row(newest),
    }


def short(fingerprint: str) -> str:
    """Return the beginning of a fingerprint: ``AB:CD:EF:01``."""
    return fingerprint[: 3 * _SHORT_BYTES - 1]
