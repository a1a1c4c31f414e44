"""What the tests of the back office share: ledgers, pages, and a service whose list of games a test decides."""

from collections.abc import Iterator
from decimal import Decimal
from html.parser import HTMLParser

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from game_operator.ledger import SqlLedger
from tests.support.catalogues import ListedGames, named


@pytest.fixture
def service(private_key: RSAPrivateKey) -> Iterator[ListedGames]:
    """A service with ten games of one instance each: g0 with i0, and so on."""
    listed = ListedGames(private_key, *(named(f"g{number}", f"i{number}") for number in range(10)))
    with listed.client:
        yield listed


@pytest.fixture
def ledger(database_url: str) -> Iterator[SqlLedger]:
    """A ledger of each kind of database, with a player p1 who has 1,000.00."""
    with SqlLedger(database_url) as ledger:
        ledger.open_account("p1", Decimal("1000.00"))
        yield ledger


@pytest.fixture
def own(sqlite_url: str) -> Iterator[SqlLedger]:
    """A ledger in a file, without accounts."""
    with SqlLedger(sqlite_url) as ledger:
        yield ledger


class Page(HTMLParser):
    """The elements of a page, their attributes, and its text with single blanks."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements, self.attributes = set[str](), set[str]()
        self.text = ""
        self.feed(source)
        self.close()
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"
