"""Exit codes go by the class of an error, and never by what it says."""

import pytest

from game_operator.cli.errors import ExitCode, exit_code_of, stopped_by
from game_operator.errors import (
    AccountNotFoundError,
    AuthenticationError,
    CampaignRefusedError,
    ConfigurationError,
    FreeBetRejectedError,
    GameOperatorError,
    LedgerUnavailableError,
    NoAnswerError,
    OutcomeUnknownError,
    RequestNotSentError,
    SchemaError,
    SigningKeyError,
)

#: Words that belong to other errors.
WORDS = "WRONG_VERSION_NUMBER, certificate verify failed: the key has 1024 bits; the database is unavailable, HTTP 401"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(GameOperatorError(WORDS), ExitCode.SAID_NO, id="any"),
        pytest.param(AccountNotFoundError(WORDS), ExitCode.SAID_NO, id="the ledger refused"),
        pytest.param(AuthenticationError(WORDS, status_code=401), ExitCode.SAID_NO, id="the service refused"),
        pytest.param(
            FreeBetRejectedError(WORDS, error_code="NEW", reference_id="r"), ExitCode.SAID_NO, id="a refused grant"
        ),
        pytest.param(ConfigurationError(WORDS), ExitCode.USAGE, id="a setting"),
        pytest.param(SigningKeyError(WORDS), ExitCode.USAGE, id="a key"),
        pytest.param(CampaignRefusedError(WORDS), ExitCode.USAGE, id="a campaign"),
        pytest.param(SchemaError(WORDS), ExitCode.USAGE, id="tables"),
        pytest.param(LedgerUnavailableError(WORDS), ExitCode.UNREACHABLE, id="the database"),
        pytest.param(RequestNotSentError(WORDS), ExitCode.UNREACHABLE, id="not sent"),
        pytest.param(NoAnswerError(WORDS), ExitCode.UNREACHABLE, id="no answer"),
        pytest.param(OutcomeUnknownError(WORDS, reference_id="r", instance_id="i"), ExitCode.UNREACHABLE, id="doubt"),
    ],
)
def test_the_class_decides(error: GameOperatorError, code: ExitCode) -> None:
    """Whatever stands in the message; what to do next is the error's own remedy."""
    assert exit_code_of(error) == code
    stopped = stopped_by(error, "games")
    assert stopped.code == code
    assert stopped.message == f"{error.what} {error.remedy}".rstrip()
