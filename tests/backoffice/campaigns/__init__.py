"""Campaigns: each grant once, and nobody left out."""
