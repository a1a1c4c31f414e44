"""The control room."""
