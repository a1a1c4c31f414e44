"""Group F."""
