"""The service's games: fetched, compared with the last good list, and kept when the service fails."""

from game_operator.backoffice.catalogue.catalogue import Catalogue
from game_operator.backoffice.catalogue.state import CatalogueChange, ChangeKind

__all__ = ["Catalogue", "CatalogueChange", "ChangeKind"]
