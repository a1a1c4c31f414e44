"""Deprecated: these names are in ``game_operator.certify.report.as_html``."""

import warnings

from game_operator.certify.report.as_html import html

__all__ = ["html"]

warnings.warn(
    "game_operator.certify.as_html is deprecated. Import from game_operator.certify.report.as_html.",
    DeprecationWarning,
    stacklevel=2,
)
