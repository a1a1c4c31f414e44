"""
The daily work of an operator, on top of the client and the ledger, with its errors.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from game_operator._lazy import lazy_names

if TYPE_CHECKING:
    from game_operator.backoffice.campaigns import Campaign as Campaign
    from game_operator.backoffice.campaigns import CampaignPlan as CampaignPlan
    from game_operator.backoffice.campaigns import CampaignReport as CampaignReport
    from game_operator.backoffice.campaigns import CampaignStatus as CampaignStatus
    from game_operator.backoffice.case import CaseFile as CaseFile
    from game_operator.backoffice.case import case_file as case_file
    from game_operator.backoffice.catalogue import Catalogue as Catalogue
    from game_operator.backoffice.catalogue import CatalogueChange as CatalogueChange
    from game_operator.backoffice.exports import totals_csv as totals_csv
    from game_operator.backoffice.reconcile.judge import Verdict as Verdict
    from game_operator.backoffice.reconcile.reconciler import Reconciler as Reconciler
    from game_operator.backoffice.reconcile.report import ReconcileReport as ReconcileReport
    from game_operator.errors import CampaignRefusedError as CampaignRefusedError
    from game_operator.errors import FindingError as FindingError
    from game_operator.errors import LeaseLostError as LeaseLostError
    from game_operator.errors import RepairRefusedError as RepairRefusedError
    from game_operator.errors import RunError as RunError

if not TYPE_CHECKING:  # With a __getattr__, a type checker would accept every misspelt name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".campaigns": "Campaign CampaignPlan CampaignReport CampaignStatus",
            ".case": "CaseFile case_file",
            ".catalogue": "Catalogue CatalogueChange",
            ".exports": "totals_csv",
            ".reconcile.judge": "Verdict",
            ".reconcile.reconciler": "Reconciler",
            ".reconcile.report": "ReconcileReport",
            "game_operator.errors": "CampaignRefusedError FindingError LeaseLostError RepairRefusedError RunError",
        },
    )
