"""Compares the ledger's bets with the provider's, settles what was lost, and reports the rest as findings."""
