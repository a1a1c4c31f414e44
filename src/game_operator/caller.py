"""Deprecated: these names are in ``game_operator.provider.caller``."""

import warnings

from game_operator.provider.caller import AsyncWebhookCaller, Delivery, WebhookCaller

__all__ = ["AsyncWebhookCaller", "Delivery", "WebhookCaller"]

warnings.warn(
    "game_operator.caller is deprecated. Import from game_operator.provider.caller.", DeprecationWarning, stacklevel=2
)
