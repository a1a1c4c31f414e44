"""All that is known of one bet, in one document: for support, the provider and regulators."""

from game_operator.backoffice.case.case_file import CaseFile, canonical, case_file
from game_operator.backoffice.case.exchanges import LoggedExchange, read_exchanges

__all__ = [
    "CaseFile",
    "LoggedExchange",
    "canonical",
    "case_file",
    "read_exchanges",
]
