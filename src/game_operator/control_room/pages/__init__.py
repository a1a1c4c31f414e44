"""The pages of the control room, in the order of the navigation."""

from typing import Final

from game_operator.control_room.page_context import Page
from game_operator.control_room.pages.bets import BetsPage
from game_operator.control_room.pages.faults import FaultsPage
from game_operator.control_room.pages.free_bets import FreeBetsPage
from game_operator.control_room.pages.keys import KeysPage
from game_operator.control_room.pages.live import LivePage
from game_operator.control_room.pages.lobby import LobbyPage
from game_operator.control_room.pages.wallet import WalletPage

PAGES: Final[tuple[type[Page], ...]] = (
    LobbyPage,
    LivePage,
    BetsPage,
    FreeBetsPage,
    FaultsPage,
    WalletPage,
    KeysPage,
)
