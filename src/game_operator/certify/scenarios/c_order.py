"""Group C."""
