"""All that is known of one bet, in one document: for support, the provider and regulators."""

from game_operator.backoffice.case.case_file import CaseFile, canonical, case_file

__all__ = ["CaseFile", "canonical", "case_file"]
