"""
Certify any operator's wallet: fire at it what a wallet must survive, and say what is wrong, what it costs, what to do.

``certify`` is the whole of it: from an address and the service's key to a report. ``certify_in_process`` does the same
without sockets. A scenario is a function that knows nothing of HTTP (``scenarios``); a ``Run`` carries its calls.
"""

from game_operator_testkit.certifier.certifying import certify, certify_in_process
from game_operator_testkit.certifier.engine.certification import Certification
from game_operator_testkit.certifier.engine.scenario import Scenario
from game_operator_testkit.certifier.engine.supplies import Supplies
from game_operator_testkit.certifier.report.report import Cause, Moved, Report
from game_operator_testkit.certifier.report.verdicts import Exchange, Note, Outcome, Verdict, Weight
from game_operator_testkit.certifier.selection import scenarios

__all__ = [
    "Cause",
    "Certification",
    "Exchange",
    "Moved",
    "Note",
    "Outcome",
    "Report",
    "Scenario",
    "Supplies",
    "Verdict",
    "Weight",
    "certify",
    "certify_in_process",
    "scenarios",
]
