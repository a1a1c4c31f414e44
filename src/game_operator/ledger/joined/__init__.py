"""A call in the operator's own transaction."""
