"""The check of a case file that was written: is it what its hash says?"""

import json
from hashlib import sha256
from typing import Any, NamedTuple

from game_operator.backoffice.case.as_html import json_in
from game_operator.backoffice.case.case_file import FORMAT, CaseFile, canonical
from game_operator.errors import ConfigurationError


class CaseCheck(NamedTuple):
    """
    What a check has found.

    Attributes:
        bet_id: The bet of the case file.
        digest: The SHA-256 of its contents, computed now.
        problem: What is wrong with it, in a sentence; "" if nothing is.
    """

    bet_id: str
    digest: str
    problem: str

    @property
    def is_unaltered(self) -> bool:
        """Whether the contents have the hash that the case file names, and a page shows these contents."""
        return not self.problem


def check_case_file(data: bytes) -> CaseCheck:
    """
    Check a case file, as JSON or HTML, and return what is wrong with it: *data* is the bytes of the file.

    Of a page, the JSON in it is checked, and the page is made again from it: what people read must follow from what the
    hash covers. A page of another version of this package is reported, because its template may differ.

    Raises:
        ConfigurationError: It is not a case file; or it is a page, and the package jinja2 is not installed.
    """
    text = data.decode(errors="replace")
    is_page = text.lstrip().startswith("<")
    document = _document(json_in(text) if is_page else text)
    contents, named = document["contents"], document["digest"]
    digest = sha256(canonical(contents)).hexdigest()
    problem = ""
    if named != digest:
        problem = f"The contents were changed: their SHA-256 is {digest}, and the file names {named}."
    elif is_page and not _is_same(text, contents):
        problem = (
            "The JSON in the page is unaltered, but the page around it is not what this version makes of it: it was "
            f"changed, or written by another version ({contents['made_by']})."
        )
    return CaseCheck(str(contents["bet_id"]), digest, problem)


def _is_same(page: str, contents: dict[str, Any]) -> bool:
    try:
        return CaseFile(contents).to_html() == page.replace("\r\n", "\n")
    except ConfigurationError:
        raise
    except Exception:  # The contents have the hash, and are not those of a case file that this version could make.
        return False


def _document(text: str | None) -> dict[str, Any]:
    try:
        document: Any = json.loads(text or "", object_pairs_hook=_once)  # Any: JSON.
        contents = document["contents"]
        if document["format"] != FORMAT:
            raise ConfigurationError(
                f"The case file has the format {document['format']!r}, and this version knows {FORMAT}. Use the "
                "version that wrote it."
            )
        texts = (contents["bet_id"], contents["made_by"], document["digest"])
        if all(isinstance(each, str) for each in texts) and canonical(contents):
            return dict(document)
    except (KeyError, TypeError, ValueError, RecursionError):
        pass
    raise ConfigurationError(
        "This is not a case file: it has no contents, digest and format. Pass a file that `game-operator case` wrote."
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member stands twice")  # Two readers would see two case files.
    return members
