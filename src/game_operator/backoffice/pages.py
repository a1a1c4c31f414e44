"""
Pages of HTML that load nothing and run nothing, each made of a template and the style beside it.

What others named is data in a page: the template escapes it, and a content security policy admits no script and no
style but the one that it names by its hash.
"""

from base64 import b64encode
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from game_operator import text
from game_operator.errors import ConfigurationError

if TYPE_CHECKING:
    from jinja2 import Environment


def page(template: Path, *filters: Callable[..., object], **values: Any) -> str:  # Any: what the template shows.
    """
    Return the page of *template*, to be written in UTF-8; a filter has the name of its function.

    Raises:
        ConfigurationError: The package jinja2 is not installed.
    """
    style = template.with_suffix(".css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    made = _environment(template.parent, filters).get_template(template.name).render(values, style=style, policy=policy)
    return text.clean(made)


@cache
def _environment(folder: Path, filters: tuple[Callable[..., object], ...]) -> "Environment":
    try:
        return text.templates(folder, *filters)
    except ImportError:
        raise ConfigurationError(
            'A page of HTML needs the package jinja2. Install the extra: pip install "game-operator[cli]"'
        ) from None
