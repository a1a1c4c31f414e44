"""
The status bar of every page: faults, repeats, the key in use, and how the wallet is.

Everything is read from values that the service keeps ready, so that a page does not become slower by it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from game_operator.text import clean, duration, iso_time
from game_operator_testkit.provider.faults import FAULTS, FaultPlan
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


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, and how long ago that was: a page that is not live shows the time, which stays right."""

    at_millis: int
    ago: str


@dataclass(frozen=True, slots=True)
class LastError:
    """
    The last error: of the wallet, of a call that got no answer, or of a balance.

    Attributes:
        text: What was answered to which call, or whose balance is wrong.
        moment: When.
        number: The call in the live log; 0 if it is not there, or no longer.
    """

    text: str
    moment: Moment
    number: int


@dataclass(frozen=True, slots=True)
class Status:
    """
    What the bar shows.

    Attributes:
        faults: What is on, for people: the title of a preset, or of each fault; "" if nothing is.
        fault_count: How many faults are on.
        fault_names: The titles of all that are on.
        retries: When a call is sent again, for people.
        retries_brief: The same in a few words.
        key: The beginning of the fingerprint of the key that signs webhooks; "" if none is made yet.
        key_since: When the service switched to it, as ``14:03``; "" if it never switched.
        key_is_doubtful: Whether the wallet has not accepted it since the switch.
        wallet: How the wallet is.
        wallet_tone: How that is coloured.
        answered: When it answered last, if it did, and how long it took.
        elapsed: How long that answer took; "" without one.
        error: Its last error, or None.
    """

    faults: str
    fault_count: int
    fault_names: str
    retries: str
    retries_brief: str
    key: str
    key_since: str
    key_is_doubtful: bool
    wallet: str
    wallet_tone: Tone
    answered: Moment | None
    elapsed: str
    error: LastError | None

    @property
    def said(self) -> str:
        """What a screen reader says when it changes; without times, which always change."""
        faults = f"{self.fault_count} fault{'' if self.fault_count == 1 else 's'} on" if self.faults else "No fault on"
        doubt = " The wallet has not accepted the service’s key yet." if self.key_is_doubtful else ""
        return f"{faults}. Wallet: {self.wallet}.{doubt}"


def status_of(sandbox: "Sandbox", now_millis: int) -> Status:
    """Return the status at *now_millis*, by the machine's clock."""
    service = sandbox.service
    plan, health, keys, period = service.faults.plan, service.health.now, service.keys_if_made, service.key_history.now
    names = [_TITLES[fault] for fault in dict.fromkeys((*plan.rates, *plan.nth))]
    wallet, tone = _wallet(sandbox.wallet_url, health)
    return Status(
        faults=_faults(plan, names),
        fault_count=len(names),
        fault_names=", ".join(names),
        retries=retry_preset(service.retries).title,
        retries_brief=retry_preset(service.retries).brief,
        key="" if keys is None else short(keys.fingerprint),
        key_since="" if period.began_millis is None else minute(period.began_millis),
        key_is_doubtful=period.is_doubtful,
        wallet=wallet,
        wallet_tone=tone,
        answered=None if health.last is None else _moment(health.last.at_millis, now_millis),
        elapsed="" if health.last is None else duration(health.last.elapsed_ms),
        error=_last_error(sandbox, health.last_error, now_millis),
    )


def short(fingerprint: str) -> str:
    """Return the beginning of a fingerprint: ``AB:CD:EF:01``."""
    return fingerprint[: 3 * _SHORT_BYTES - 1]


def minute(at_millis: int) -> str:
    """Return the time of the day in UTC, to the minute: ``14:03``."""
    return iso_time(at_millis)[11:16]


def ago(elapsed_ms: int) -> str:
    """Return how long ago something was, in one unit: ``3 s ago``."""
    for most, unit_ms, unit in (
        (_MINUTE_MS, 1_000, "s"),
        (_HOUR_MS, _MINUTE_MS, "min"),
        (48 * _HOUR_MS, _HOUR_MS, "h"),
    ):
        if elapsed_ms < most:
            return f"{max(0, elapsed_ms) // unit_ms} {unit} ago"
    return f"{elapsed_ms // (24 * _HOUR_MS)} days ago"


def _faults(plan: FaultPlan, names: list[str]) -> str:
    if plan.preset is not None:
        return plan.preset.title
    return names[0] if len(names) == 1 else f"{len(names)} faults" if names else ""


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


def _last_error(sandbox: "Sandbox", answer: WalletAnswer | None, now_millis: int) -> LastError | None:
    """Return the last error or the last balance that went wrong, whichever is later; None without any."""
    found = [] if answer is None else [_error(sandbox, answer, now_millis)]
    if mistake := sandbox.service.balances.latest_mistake():
        found.append(_wrong_balance(sandbox, *mistake, now_millis))
    return max(found, key=lambda each: (each.moment.at_millis, each.number), default=None)


def _wrong_balance(sandbox: "Sandbox", player_id: str, point: ReportedBalance, now_millis: int) -> LastError:
    call = sandbox.live.exchange(point.number)
    # The service may keep another time than the machine, by which all else here goes.
    at_millis = point.at_millis if call is None else call.at_millis + round(call.elapsed_ms)
    return LastError(f"wrong balance of {clean(player_id)}", _moment(at_millis, now_millis), call.number if call else 0)


def _error(sandbox: "Sandbox", answer: WalletAnswer, now_millis: int) -> LastError:
    text = f"{_answer(answer)} to {answer.path[1:]}" if answer.path else "the wallet could not be reached"
    number = answer.number if sandbox.live.exchange(answer.number) else 0
    return LastError(text, _moment(answer.at_millis, now_millis), number)


def _moment(at_millis: int, now_millis: int) -> Moment:
    return Moment(at_millis, ago(now_millis - at_millis))
