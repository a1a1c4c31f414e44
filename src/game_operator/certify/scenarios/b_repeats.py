"""Group B."""
