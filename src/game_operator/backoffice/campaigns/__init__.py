"""Campaigns: free bets for many players, each of them once, even if processes are killed or answers are lost."""

from game_operator.backoffice.campaigns.answers import GrantState
from game_operator.backoffice.campaigns.campaign import Campaign
from game_operator.backoffice.campaigns.plan import CampaignPlan
from game_operator.backoffice.campaigns.players import Problem
from game_operator.backoffice.campaigns.report import CampaignReport, CampaignStatus, GrantResult, Tally

__all__ = [
    "Campaign",
    "CampaignPlan",
    "CampaignReport",
    "CampaignStatus",
    "GrantResult",
    "GrantState",
    "Problem",
    "Tally",
]
