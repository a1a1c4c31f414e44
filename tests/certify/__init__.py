"""The certifier."""
