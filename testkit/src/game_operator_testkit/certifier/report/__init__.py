"""A certification as a whole: verdicts, figures, causes, and their forms as text, JSON, JUnit and HTML."""

from game_operator_testkit.certifier.report.report import Cause, Moved, Report

__all__ = ["Cause", "Moved", "Report"]
