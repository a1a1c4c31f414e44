"""Deprecated: these names are in ``game_operator.certify.report.as_html``."""

from game_operator._lazy import warn_of_move
from game_operator.certify.report.as_html import html

__all__ = ["html"]

warn_of_move(__name__, "game_operator.certify.report.as_html")
