"""Deprecated: these names are in ``game_operator.certify.report.as_junit``."""

import warnings

from game_operator.certify.report.as_junit import junit

__all__ = ["junit"]

warnings.warn(
    "game_operator.certify.as_junit is deprecated. Import from game_operator.certify.report.as_junit.",
    DeprecationWarning,
    stacklevel=2,
)
