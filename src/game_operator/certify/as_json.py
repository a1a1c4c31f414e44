"""Deprecated: these names are in ``game_operator.certify.report.as_json``."""

from game_operator._lazy import warn_of_move
from game_operator.certify.report.as_json import FORMAT, document

__all__ = ["FORMAT", "document"]

warn_of_move(__name__, "game_operator.certify.report.as_json")
