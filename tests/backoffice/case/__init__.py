"""Case files: what is in them, what is left out, and how they look."""
