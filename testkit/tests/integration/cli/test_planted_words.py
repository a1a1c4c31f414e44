"""Messages carry no control flow: with other words in every one of ours, all is decided as before."""

import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

from game_operator import errors
from game_operator.errors import GameOperatorError
from game_operator.protocol.exchange import TransportFailed
from game_operator_testkit.certifier.engine.steps import Found
from game_operator_testkit.certifier.report.verdicts import Note
from game_operator_testkit.provider.delivery import Carried
from testkit.tests.certifier.harness import certified
from testkit.tests.support.wrong_wallet_table import WRONG_WALLETS

_KINDS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, GameOperatorError)]
#: Their mistakes show in texts: of exceptions, of floats, of bodies that cannot be read, of statuses and of codes.
_WRONG = ("TellsExceptions", "AnswersNoJsonWith400", "FallsOverGarbage", "KeepsForgeries")
_SCENARIOS = ("A01", "A02", "A04", "B01", "B05", "C02", "D01", "E01", "E03", "F02", "F09", "G02", "G04", "H01")


#: Done twice, as by a message that quotes another, it is still none of ours.
_OTHER_LETTERS = str.maketrans(
    string.ascii_letters, string.ascii_lowercase[7:] + string.ascii_lowercase[:7] + string.ascii_uppercase[::-1]
)


def _planted(text: str) -> str:
    """Return *text* without any of its words."""
    return text.translate(_OTHER_LETTERS)


def _of_field(kind: Any, name: str) -> Callable[..., None]:  # Any: a class, whose __init__ is replaced.
    """Return an ``__init__`` of *kind* that plants other words into the field called *name*."""
    made = kind.__init__

    @wraps(made)
    def init(self: object, *args: object, **fields: object) -> None:
        made(self, *args, **fields)
        object.__setattr__(self, name, _planted(getattr(self, name)))

    return init


def _in_other_words(told: property) -> property:
    return property(lambda self: _planted(told.__get__(self)))


@contextmanager
def _other_words() -> Iterator[None]:
    """Plant other words into what our errors, failures, findings and notes say."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in _KINDS:
            if isinstance(told := vars(kind).get("what"), property):
                patch.setattr(kind, "what", _in_other_words(told))
            patch.setattr(kind, "__str__", lambda self: self.what)
        patch.setattr(TransportFailed, "__init__", _of_field(TransportFailed, "reason"))
        patch.setattr(Carried, "__init__", _of_field(Carried, "problem"))
        patch.setattr(Found, "__init__", _of_field(Found, "reason"))
        patch.setattr(Note, "__init__", _of_field(Note, "reason"))
        yield


def _is_planted(decide: Callable[[], object]) -> None:
    """Hold that *decide* returns the same in other words."""
    before = decide()
    with _other_words():
        assert decide() == before


@pytest.mark.slow
@pytest.mark.parametrize("name", _WRONG)
def test_the_certifier_judges_alike(name: str) -> None:
    """Verdicts, weights, causes and symptoms, and which failures are one mistake."""

    def judged() -> object:
        report = certified(WRONG_WALLETS[name].kind, only=_SCENARIOS)
        verdicts = [
            (each.id, each.outcome, each.weight, [(note.cause, note.symptom) for note in each.notes])
            for each in report.verdicts
        ]
        return verdicts, [(cause.ids, cause.mistake) for cause in report.causes]

    _is_planted(judged)
