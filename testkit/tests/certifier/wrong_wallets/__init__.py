"""Wallets that are each wrong in exactly one way, and what the certifier must say of them."""
