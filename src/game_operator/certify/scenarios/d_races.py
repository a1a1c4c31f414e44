"""Group D."""
