"""The service's games: fetched, compared with the last good list, and kept when the service fails."""

from game_operator.backoffice.catalogue.catalogue import Catalogue
from game_operator.backoffice.catalogue.changes import (
    CatalogueChange,
    GameAdded,
    GameDetailsChanged,
    GameGone,
    GameStatusChanged,
    InstanceAdded,
    InstanceChange,
    InstanceDetailsChanged,
    InstanceGone,
    InstanceSwitched,
    LimitsChanged,
    RtpChanged,
)
from game_operator.backoffice.catalogue.snapshots import HeldSnapshot

__all__ = [
    "Catalogue",
    "CatalogueChange",
    "GameAdded",
    "GameDetailsChanged",
    "GameGone",
    "GameStatusChanged",
    "HeldSnapshot",
    "InstanceAdded",
    "InstanceChange",
    "InstanceDetailsChanged",
    "InstanceGone",
    "InstanceSwitched",
    "LimitsChanged",
    "RtpChanged",
]
