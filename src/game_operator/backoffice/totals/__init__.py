"""Reports of totals for people and for accounting programs: CSV, and one page of HTML with a chart."""

from game_operator.backoffice.totals.as_html import totals_html as totals_html
from game_operator.backoffice.totals.table import totals_csv as totals_csv
