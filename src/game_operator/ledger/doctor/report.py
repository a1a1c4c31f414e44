"""What the examination of a ledger's place returns."""

from typing import Literal, NamedTuple

Verdict = Literal["fine", "advice", "finding", "not visible"]


class DoctorCheck(NamedTuple):
    """
    What one check found.

    Attributes:
        name: What was checked.
        verdict: ``finding`` is wrong and ``advice`` may be; ``not visible`` is what this user or this machine
            cannot see, so that it may be wrong, too.
        found: What was found.
        why: Why it matters; "" if it is fine.
        todo: What to do about it; "" if it is fine.
    """

    name: str
    verdict: Verdict
    found: str
    why: str = ""
    todo: str = ""


class DoctorReport(NamedTuple):
    """
    What ``doctor`` found.

    Attributes:
        checks: All checks; one that found several things is there several times.
    """

    checks: tuple[DoctorCheck, ...]

    @property
    def findings(self) -> tuple[DoctorCheck, ...]:
        """What is wrong."""
        return tuple(check for check in self.checks if check.verdict == "finding")

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong, as far as is visible."""
        return not self.findings
