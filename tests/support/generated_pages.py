"""All pages of the site that the project itself describes. The site build writes them, and git does not keep them."""

from functools import cache

from testkit.tests.support import scenario_table, wrong_wallet_table
from tests.support.api_pages import api_pages
from tests.support.coverage_pages import coverage_pages
from tests.support.findings_page import findings_page
from tests.support.mutation_page import page as mutation_page
from tests.support.reference_pages import reference_pages


@cache
def generated_pages() -> dict[str, str]:
    """Return the text of each page by its name in docs."""
    return {
        **reference_pages(),
        **api_pages(),
        **coverage_pages(),
        "reference/findings.md": findings_page(),
        "reference/scenarios.md": scenario_table.page(),
        "maintainers/wrong-wallets.md": wrong_wallet_table.page(),
        "maintainers/mutation.md": mutation_page(),
    }
