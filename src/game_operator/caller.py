"""Deprecated: these names are in ``game_operator.provider.caller``."""

from game_operator._lazy import warn_of_move
from game_operator.provider.caller import AsyncWebhookCaller, Delivery, WebhookCaller

__all__ = ["AsyncWebhookCaller", "Delivery", "WebhookCaller"]

warn_of_move(__name__, "game_operator.provider.caller")
