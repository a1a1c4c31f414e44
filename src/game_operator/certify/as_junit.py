"""Deprecated: these names are in ``game_operator.certify.report.as_junit``."""

from game_operator._lazy import warn_of_move
from game_operator.certify.report.as_junit import junit

__all__ = ["junit"]

warn_of_move(__name__, "game_operator.certify.report.as_junit")
