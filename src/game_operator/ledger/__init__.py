"""Ledgers that cannot lose or double money: in memory, on SQLite, on PostgreSQL, or in your own transaction."""
