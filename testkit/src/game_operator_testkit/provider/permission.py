"""Whether a program may move the money of a wallet: always on this machine, elsewhere only with permission."""

from game_operator.client.settings import split_address
from game_operator.errors import ConfigurationError, shown
from game_operator.protocol.http import is_loopback


def check_moves_money(url: str, what: str, *, moves_money: bool, name: str = "The wallet's address") -> None:
    """
    Raise ConfigurationError unless *what* may move the money of the wallet at *url*, the argument called *name*.

    A wallet on this machine needs no permission; one on another machine needs *moves_money*.
    """
    host = split_address(url).hostname or ""
    if not host:
        raise ConfigurationError(
            f"{name} {shown(url)} is not a valid address.", remedy="Pass one like http://127.0.0.1:8000/wallet."
        )
    if not is_loopback(host) and not moves_money:
        raise ConfigurationError(
            f"{shown(host)} is another machine, and {what} moves its players' money.",
            setting="moves_money",
            remedy="Pass moves_money=True if that is what you want.",
        )
