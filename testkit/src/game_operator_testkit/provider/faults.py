"""
What can go wrong between a service and a wallet, each fault by name.

A fault comes on top of a delivery, never in its place: the call itself is always sent too. The lasting faults are the
exception: they keep a settlement back or change it at the service, until somebody reconciles wallet and service.
Which call gets which fault follows from the seed and the call's number in the plan, so that it does not depend on what
else is under way.
"""

import re
import tomllib
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from random import Random
from threading import Lock
from typing import Final, Literal

from game_operator.errors import ConfigurationError, shown

#: How often each fault occurs where all are asked for: 3 of 100 deliveries.
DEFAULT_RATE: Final = 0.03


class Fault(StrEnum):
    """
    The faults, by the names they are switched on with.

    A new one stands last: the order decides what a seed plays, and the replay of an old trace.
    """

    REQUEST_LOST = "request-lost"
    REPLY_LOST = "reply-lost"
    TIMEOUT = "timeout"
    RESET = "reset"
    SLOW = "slow"
    DUPLICATE = "duplicate"
    OTHER_CONTENT = "other-content"
    EARLY_ROLLBACK = "early-rollback"
    EARLY_DEPOSIT = "early-deposit"
    LATE_DEPOSIT = "late-deposit"
    FORGED = "forged"
    RESERIALISED = "reserialised"
    OLD_KEY = "old-key"
    API_500 = "api-500"
    API_429 = "api-429"
    API_INACTIVE = "api-inactive"
    SETTLEMENT_LOST = "settlement-lost"
    SETTLEMENT_HELD = "settlement-held"


@dataclass(frozen=True, slots=True)
class FaultInfo:
    """
    What there is to say of a fault.

    Attributes:
        name: The fault.
        title: A few words.
        text: One sentence: what happens.
        side: ``webhook`` occurs in calls to the wallet, ``api`` in calls of the Operator API.
        is_refused: Whether a correct wallet refuses what the fault adds.
        is_lasting: Whether service and wallet differ after it until they are reconciled. ``all`` leaves it out.
    """

    name: Fault
    title: str
    text: str
    side: Literal["webhook", "api"] = "webhook"
    is_refused: bool = False
    is_lasting: bool = False


# faults.toml has the texts.
FAULTS: Final = tuple(
    FaultInfo(Fault(name), **entry)
    for name, entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
)
"""All faults with their texts, in the order in which people read them."""
#: What a correct wallet refuses.
FAULTS_TO_REFUSE: Final = frozenset(info.name for info in FAULTS if info.is_refused)
#: What occurs in calls of the Operator API.
API_FAULTS: Final = (Fault.API_429, Fault.API_500, Fault.API_INACTIVE)
#: After these service and wallet differ until they are reconciled.
LASTING_FAULTS: Final = tuple(info.name for info in FAULTS if info.is_lasting)
_OF_WEBHOOKS: Final = tuple(info.name for info in FAULTS if info.side == "webhook")
#: A storm of all faults ends with equal books.
_ALL: Final = tuple(fault for fault in _OF_WEBHOOKS if fault not in LASTING_FAULTS)


@dataclass(frozen=True, slots=True)
class FaultPreset:
    """
    Faults that come together in real life.

    Attributes:
        name: What it is switched on by, such as ``bad-network``.
        title: A few words.
        text: One sentence: what happens.
        rates: The share of deliveries in which each of its faults occurs.
    """

    name: str
    title: str
    text: str
    rates: Mapping[Fault, float]


#: By name; fault_presets.toml has them.
FAULT_PRESETS: Final[Mapping[str, FaultPreset]] = {
    name: FaultPreset(name, **entry | {"rates": {Fault(fault): rate for fault, rate in entry["rates"].items()}})
    for name, entry in tomllib.loads(Path(__file__).with_name("fault_presets.toml").read_text(encoding="utf-8")).items()
}

_PART: Final = re.compile(r"[a-z0-9-]+(?:=(?P<rate>[0-9]*\.?[0-9]+)(?P<percent>%?)|@(?P<nth>[0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """
    Which faults occur, and how often.

    Attributes:
        rates: The share of deliveries in which each fault occurs, from 0 to 1.
        nth: The number of the call in which a fault occurs, counted from 1; the next one in which it can, if that
            call is of another kind.
    """

    rates: Mapping[Fault, float] = field(default_factory=dict)
    nth: Mapping[Fault, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "FaultPlan":
        """
        Return the plan that *text* asks for.

        That is ``all``, ``none``, or a list such as ``reply-lost=0.05,forged=1%,reset@3``: a name alone stands for a
        rate of 3 %, ``@3`` for the third call. The name of a preset, such as ``bad-network``, stands for its faults.
        ``all`` leaves the lasting faults out: they are asked for by name.

        Raises:
            ConfigurationError: It cannot be read; the message names what is possible.
        """
        if text.strip() == "all":
            return cls(dict.fromkeys(_ALL, DEFAULT_RATE))
        rates: dict[Fault, float] = {}
        nth: dict[Fault, int] = {}
        for part in (part.strip() for part in text.split(",")) if text.strip() != "none" else ():
            if part in FAULT_PRESETS:
                rates |= FAULT_PRESETS[part].rates
                continue
            name, found = re.split("[=@]", part)[0], _PART.fullmatch(part)
            if name in ("", "all", "none"):
                raise ConfigurationError(
                    f"{shown(text)} cannot be read. Pass all or none alone, or faults with commas between them, such "
                    "as reset=5%,forged@3."
                )
            fault = fault_named(name)
            if found is None:
                raise ConfigurationError(
                    f"{shown(part)} cannot be read. Pass {fault}, {fault}=0.05, {fault}=5%, or {fault}@3 for call 3."
                )
            if found["nth"]:
                nth[fault] = _checked_nth(int(found["nth"]))
            else:
                rates[fault] = _rate(found["rate"], found["percent"] or "")
        return cls(rates, nth)

    def __str__(self) -> str:
        # Never with an exponent, which ``parse`` does not read.
        parts = [f"{fault}={Decimal(repr(float(rate))):f}" for fault, rate in self.rates.items()]
        return ",".join([*parts, *(f"{fault}@{number}" for fault, number in self.nth.items())]) or "none"

    def __bool__(self) -> bool:
        return any(self.rates.values()) or bool(self.nth)

    @property
    def preset(self) -> FaultPreset | None:
        """The preset that this is, or None."""
        if self.nth:
            return None
        return next((preset for preset in FAULT_PRESETS.values() if preset.rates == self.rates), None)

    def struck(self, draw: str, possible: Iterable[Fault]) -> tuple[Fault, ...]:
        """Return which of the *possible* faults occur, by their rates; the same *draw* gives the same answer."""
        if not self.rates:
            return ()
        random = Random(draw)  # noqa: S311 - a run must repeat
        # Each is drawn for, possible or not, so that one switched on does not move the others.
        drawn = {fault: random.random() < self.rates.get(fault, 0.0) for fault in Fault}
        return tuple(fault for fault in possible if drawn[fault])


NO_FAULTS: Final = FaultPlan()


class FaultSwitches:
    """The faults of a running sandbox or storm, switched on and off from any thread; *plan* are those of the start."""

    def __init__(self, plan: FaultPlan = NO_FAULTS) -> None:
        self._lock = Lock()
        self._plan = plan

    @property
    def plan(self) -> FaultPlan:
        """What occurs now."""
        return self._plan

    @plan.setter
    def plan(self, plan: FaultPlan) -> None:
        with self._lock:
            self._plan = plan

    def set(self, name: str, rate: float) -> None:
        """
        Let the fault *name* occur in a share *rate* of deliveries; 0 switches it off.

        Raises:
            ConfigurationError: There is no such fault, or the rate is not from 0 to 1.
        """
        fault, rate = fault_named(name), _checked_rate(rate)
        with self._lock:
            rates = {**self._plan.rates, fault: rate}
            self._plan = replace(self._plan, rates={name: rate for name, rate in rates.items() if rate})

    def set_nth(self, name: str, number: int) -> None:
        """
        Let the fault *name* occur in the *number*-th call from now on, once; 0 takes that back.

        Raises:
            ConfigurationError: There is no such fault, or the number is negative.
        """
        fault = fault_named(name)
        with self._lock:
            nth = {**self._plan.nth, fault: 0 if number == 0 else _checked_nth(number)}
            self._plan = replace(self._plan, nth={name: number for name, number in nth.items() if number})

    def strike_webhook(self, possible: Iterable[Fault]) -> tuple[Fault, ...]:
        """Count a call to the wallet, and return what waited for it of the *possible* faults."""
        with self._lock:
            waiting = {fault: number for fault, number in self._plan.nth.items() if fault in _OF_WEBHOOKS}
            due = tuple(fault for fault in possible if waiting.get(fault) == 1)
            self._count(waiting, due)
        return due

    def strike_api(self, draw: str) -> Fault | None:
        """Count a call of the Operator API, and return what occurs in it: what waited for it, or else by *draw*."""
        with self._lock:
            waiting: dict[Fault, int] = {name: nth for name, nth in self._plan.nth.items() if name in API_FAULTS}
            # At most one, because a response has one status. Another fault that waits occurs in the next call.
            due = next((fault for fault in API_FAULTS if waiting.get(fault) == 1), None)
            self._count(waiting, (due,))
        return due or next(iter(self._plan.struck(draw, API_FAULTS)), None)

    def _count(self, waiting: Mapping[Fault, int], due: Container[Fault | None]) -> None:
        """Count a call for the faults that are *waiting*; those *due* wait no more."""
        left = {fault: max(1, number - 1) for fault, number in waiting.items() if fault not in due}
        others = {fault: number for fault, number in self._plan.nth.items() if fault not in waiting}
        self._plan = replace(self._plan, nth=others | left)

    def clear(self) -> None:
        """Switch all faults off."""
        self.plan = NO_FAULTS


def fault_named(name: str) -> Fault:
    """Return the fault called *name*; raise ConfigurationError if it does not exist."""
    try:
        return Fault(name)
    except ValueError:
        known = f"{', '.join(Fault)}, or the name of a preset alone: {', '.join(FAULT_PRESETS)}"
        raise ConfigurationError(f"There is no fault {shown(name)}. Pass some of {known}.") from None


def _rate(text: str | None, percent: str) -> float:
    return DEFAULT_RATE if text is None else _checked_rate(float(text) / (100 if percent else 1))


def _checked_rate(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise ConfigurationError(f"A fault's rate must be from 0 to 1, or from 0% to 100%, not {rate:g}.")
    return rate


def _checked_nth(number: int) -> int:
    if number < 1:
        raise ConfigurationError(f"The number of a call must be 1 or more, not {number}.")
    return number
