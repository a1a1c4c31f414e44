"""The public API: what its docstrings say, and how it is shown. ``make api`` compares it with the last release."""

import inspect
import pydoc
import re
from functools import cache
from typing import Final

import pytest

import game_operator
from game_operator.ledger import AsyncSqlLedger, SqlLedger
from tests.support.documents import ROOT
from tests.support.reference import PACKAGES, Reference

pytestmark = pytest.mark.outside  # griffe asks git.

#: Sections of the specification that a docstring must name.
_SECTIONS: Final = {
    "OperatorClient": ("4.2", "5"),
    "OperatorClient.fetch_games": ("4.2",),
    "OperatorClient.fetch_bet": ("2.4", "4.2"),
    "OperatorClient.fetch_round_bets": ("2.8", "4.2"),
    "OperatorClient.grant_free_bet": ("2.2", "4.2", "8"),
    "BetConfig": ("2.7",),
    "GameInfo": ("2.5",),
    "GameInstance": ("2.6",),
    "GameStatus": ("2.5",),
    "Genre": ("2.5",),
    "OpenBet": ("2.4",),
    "ClosedBet": ("2.4",),
    "RolledBackBet": ("2.4",),
    "BetNotFound": ("2.4", "4.2"),
    "RoundFound": ("2.8",),
    "RoundNotFound": ("2.8",),
    "GrantAccepted": ("2.3",),
    "GrantErrorCode": ("7.2",),
    "FreeBetRejectedError": ("7.2",),
    "BadRequestError": ("7.3",),
    "AuthenticationError": ("5",),
    "OperatorInactiveError": ("5", "7.3"),
    "webhooks.WebhookErrorCode": ("7.1",),
    "WithdrawCall": ("3", "4.1"),
    "DepositCall": ("3", "4.1"),
    "RollbackCall": ("3", "4.1"),
    "BalanceCall": ("4.1",),
    "Reply": ("2.1",),
    "Cents": ("2.4",),
    "Signer.sign": ("5",),
    "SigningKeyError": ("5",),
    "webhooks.success": ("2.1",),
    "webhooks.error": ("2.1", "7.1"),
    "webhooks.WebhookHandler": ("4.1",),
    "models.GrantRequest": ("2.2",),
    "signers.AwsKmsSigner": ("5",),
    "game_operator_testkit.Sandbox": ("4.2", "5"),
    "game_operator_testkit.certify": ("4.1",),
}


_reference: Final = cache(Reference)


@pytest.mark.artefact
def test_docstrings_leave_nothing_out() -> None:
    """Each public name, parameter, result, error and unit is described, as STYLE asks for in docstrings."""
    assert len(_reference().parts) > 1_000
    assert list(_reference().gaps()) == []


@pytest.mark.artefact
@pytest.mark.parametrize(("name", "sections"), _SECTIONS.items())
def test_the_section_of_the_specification_is_named(name: str, sections: tuple[str, ...]) -> None:
    """Who has the specification open finds the place."""
    text = _reference().text(name)
    assert [each for each in sections if not re.search(rf"§{re.escape(each)}(?![.\d])", text)] == []


@pytest.mark.artefact
def test_help_begins_with_the_names_that_matter() -> None:
    """``help(game_operator)`` shows them in the order in which a newcomer needs them, before all other names."""
    listed = re.findall(r"^    ([\w.]+(?:, [\w.]+)*)", str(game_operator.__doc__), re.MULTILINE)
    names = [name for line in listed for name in line.split(", ")]
    assert names[:2] == ["OperatorClient", "AsyncOperatorClient"]
    assert {"webhooks.WebhookReceiver", "wallet.Wallet", "ledger.SqlLedger", "backoffice.Reconciler"} <= set(names)
    assert len(names) < 20
    assert [name for name in names if name not in _reference().parts] == []
    shown = pydoc.plain(pydoc.render_doc(game_operator))
    assert 0 < shown.index(listed[0]) < shown.index(listed[-1]) < shown.index("PACKAGE CONTENTS")


@pytest.mark.parametrize("ledger", [SqlLedger, AsyncSqlLedger])
def test_signatures_do_not_inline_a_profile(ledger: type) -> None:
    """In ``inspect.signature``, help() and an editor the default of *terms* is a word, and not a page."""
    signature = str(inspect.signature(vars(ledger)["apply"]))
    assert "terms: game_operator.ledger.api.Terms = Terms(rules=Profile(), source=''" in signature
    assert "fields=" not in pydoc.plain(pydoc.render_doc(ledger))


def test_the_page_of_the_policy_names_the_same_modules() -> None:
    """What is promised is what is compared."""
    page = (ROOT / "docs" / "reference" / "versions.md").read_text()
    listed = page.partition("The Python API is what")[2].partition("## What is not covered")[0]
    named = re.findall(r"`(game_operator[\w.]*)`", listed)
    assert named == [*PACKAGES]
