"""The public API: what its docstrings say, how it is shown, and that it does not break programs of users."""

import inspect
import pydoc
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import griffe
import pytest

import game_operator
from game_operator.ledger import AsyncSqlLedger, SqlLedger
from tests.support.reference import Reference
from tools.public_api import DUMP, PACKAGES, ROOT, SOURCES, breakages, loaded, verdict, written

pytestmark = pytest.mark.outside  # griffe and the tool ask git.

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
_THIN: Final = '''
class Thing:
    """A thing."""

    def pay(self, amount: int, limit_cents: int) -> int:
        """Pay *amount*."""
        if amount > limit_cents:
            raise LedgerError
        return amount

    def silent(self) -> None: ...
'''


@cache
def _packages() -> griffe.ModulesCollection:
    return loaded(*SOURCES)


@cache
def _reference() -> Reference:
    return Reference(_packages())


@cache
def _api() -> str:
    return written(_packages())


@pytest.mark.artefact
def test_docstrings_leave_nothing_out() -> None:
    """Each public name, parameter, result, error and unit is described, as STYLE asks for in docstrings."""
    assert len(_reference().parts) > 1_000
    assert list(_reference().gaps()) == []


@pytest.mark.artefact
def test_what_a_docstring_leaves_out_is_found(tmp_path: Path) -> None:
    """Each kind of gap is found, and named."""
    package = tmp_path / "game_operator"
    package.mkdir()
    (package / "__init__.py").write_text(f'"""A package."""\n{_THIN}')
    thin = Reference(loaded(tmp_path), ["game_operator"])
    assert list(thin.gaps()) == [
        "Thing.pay: does not say in which unit amount is",
        "Thing.pay: does not describe limit_cents",
        "Thing.pay: does not say that it raises LedgerError",
        "Thing.pay: does not say what it returns",
        "Thing.silent: has no docstring",
    ]


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


@pytest.mark.artefact
def test_the_api_is_written_down() -> None:
    """What is compared is the API as it is: an addition is written down in the commit that makes it."""
    assert _api() == DUMP.read_text(), "The public API has changed. Run: python tools/public_api.py --write"


@pytest.mark.artefact
def test_the_api_breaks_nothing() -> None:
    """Programs that were written for the last release go on working."""
    assert verdict(_api(), ROOT) == ""


@pytest.mark.artefact
@pytest.mark.parametrize(
    ("before", "after", "broken"),
    [
        pytest.param(
            "def fetch_bet(self, bet_id)",
            "def fetch_bet(self, id)",
            "OperatorClient.fetch_bet(bet_id): Parameter was removed",
            id="a parameter has another name",
        ),
        pytest.param(
            "def launch_url(template, token)",
            "def launch_url(token, template)",
            "launch_url(template): Positional parameter was moved",
            id="parameters change places",
        ),
        pytest.param(
            "def wsgi_app(receiver, handler, *, prefix=''",
            "def wsgi_app(receiver, handler, *, prefix",
            "webhooks.wsgi_app(prefix): Parameter is now required",
            id="a parameter has no default any more",
        ),
        pytest.param(
            "deadline=30.0", "deadline=60.0", "OperatorClient.__init__(deadline): Parameter default", id="a default"
        ),
        pytest.param(
            "def verify(self", "def check(self", "ledger.SqlLedger.verify: Public object was removed", id="name"
        ),
        pytest.param(
            "free_bet_id = ...", "", "GrantAccepted.free_bet_id: Public object was removed", id="an attribute"
        ),
        pytest.param(
            "class NoAnswerError(TransportError)",
            "class NoAnswerError(ApiError)",
            "NoAnswerError: Not a subclass of TransportError any more",
            id="a class of errors has another base",
        ),
        pytest.param(
            "async def fetch_bet(",
            "def fetch_bet(",
            "AsyncOperatorClient.fetch_bet: Not awaited any more",
            id="a coroutine becomes a function",
        ),
    ],
)
def test_a_break_is_found(before: str, after: str, broken: str) -> None:
    """A change that breaks programs of users is named, with what it is about."""
    assert before in _api()
    assert [each for each in breakages(_api(), _api().replace(before, after)) if each.startswith(broken)]


@pytest.mark.artefact
def test_an_addition_breaks_nothing() -> None:
    """A new name, method or parameter with a default is for a minor version."""
    added = _api().replace("def fetch_bet(self, bet_id)", "def fetch_bet(self, bet_id, *, more=None)") + "new = ...\n"
    assert added != _api()
    assert breakages(_api(), added) == []


def test_the_page_of_the_policy_names_the_same_modules() -> None:
    """What is promised is what is compared."""
    page = (ROOT / "docs" / "reference" / "compatibility.md").read_text()
    listed = page.partition("The Python API is what")[2].partition("## What is not covered")[0]
    named = re.findall(r"`(game_operator[\w.]*)`", listed)
    assert named == [*PACKAGES]


@pytest.mark.artefact
def test_the_message_says_how_to_accept_a_break(tmp_path: Path) -> None:
    """Without a release, the file is written anew."""
    _repository(tmp_path, version="0.1.0", tag="")
    problem = verdict("kept = ...\n", tmp_path)
    assert problem.splitlines()[:2] == [
        "The public API of tests/vectors/public_api.txt is broken:",
        "  gone: Public object was removed",
    ]
    assert problem.endswith("run: python tools/public_api.py --write.")
    assert verdict("gone = ...\nkept = ...\n", tmp_path) == ""


@pytest.mark.artefact
@pytest.mark.parametrize(
    ("version", "may_break"),
    [("0.1.1", False), ("0.2.0", True), ("1.0.0", True)],
    ids=["a bug fix may not break", "a minor version of 0 may", "a major version may"],
)
def test_a_release_is_what_the_api_is_compared_with(tmp_path: Path, version: str, may_break: bool) -> None:
    """Once a version is tagged, its file counts, and not the one of this commit; a new number allows a break."""
    _repository(tmp_path, version=version, tag="v0.1.0")
    (tmp_path / DUMP.relative_to(ROOT)).write_text("kept = ...\n")
    problem = verdict("kept = ...\n", tmp_path)
    assert (problem == "") is may_break
    assert may_break or ("The public API of v0.1.0 is broken" in problem and "raise the version's number" in problem)


@pytest.mark.artefact
def test_a_tag_is_not_compared_with_itself(tmp_path: Path) -> None:
    """The workflow that publishes a version runs on its tag: the release before it counts."""
    _repository(tmp_path, version="0.1.0", tag="v0.1.0")
    for version, problem in (("0.1.1", "The public API of v0.1.0 is broken"), ("0.2.0", "")):
        (tmp_path / DUMP.relative_to(ROOT)).write_text("kept = ...\n")
        (tmp_path / "src" / "game_operator" / "_version.py").write_text(f'__version__ = "{version}"\n')
        _commit(tmp_path, f"v{version}")
        assert verdict("kept = ...\n", tmp_path).startswith(problem)
        _run_git(tmp_path, "reset", "--quiet", "--hard", "v0.1.0")
        _run_git(tmp_path, "tag", "--delete", f"v{version}")


@pytest.mark.artefact
def test_a_release_without_the_file_is_reported(tmp_path: Path) -> None:
    """Compared with nothing, every API would be fine."""
    _repository(tmp_path, version="0.1.0", tag="")
    (tmp_path / DUMP.relative_to(ROOT)).unlink()
    _run_git(tmp_path, "init", "--quiet")
    _commit(tmp_path, "v0.1.0")
    _run_git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "Go on")
    assert verdict("kept = ...\n", tmp_path).startswith("The release v0.1.0 has no tests/vectors/public_api.txt")


def _repository(place: Path, *, version: str, tag: str) -> None:
    """Make a repository whose API has two names; with *tag*, it is committed and tagged."""
    dump, source = place / DUMP.relative_to(ROOT), place / "src" / "game_operator" / "_version.py"
    for file, text in ((dump, "gone = ...\nkept = ...\n"), (source, f'__version__ = "{version}"\n')):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    if tag:
        _run_git(place, "init", "--quiet")
        _commit(place, tag)
        _run_git(place, "commit", "--quiet", "--allow-empty", "-m", "Go on")


def _commit(place: Path, tag: str) -> None:
    for command in (("add", "."), ("commit", "--quiet", "-m", "Release"), ("tag", tag)):
        _run_git(place, *command)


def _run_git(place: Path, *command: str) -> None:
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.com")
    subprocess.run(("git", "-C", str(place), *who, *command), check=True, stdout=subprocess.DEVNULL)
