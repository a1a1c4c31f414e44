"""A ledger in SQLite."""
