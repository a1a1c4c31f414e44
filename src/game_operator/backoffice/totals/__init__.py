"""Reports of totals for people and for accounting programs: CSV, and one page of HTML."""

from game_operator.backoffice.totals.table import totals_csv as totals_csv
from game_operator.backoffice.totals.table import totals_html as totals_html
