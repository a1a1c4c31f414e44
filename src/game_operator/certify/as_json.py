"""Deprecated: these names are in ``game_operator.certify.report.as_json``."""

import warnings

from game_operator.certify.report.as_json import FORMAT, document

__all__ = ["FORMAT", "document"]

warnings.warn(
    "game_operator.certify.as_json is deprecated. Import from game_operator.certify.report.as_json.",
    DeprecationWarning,
    stacklevel=2,
)
