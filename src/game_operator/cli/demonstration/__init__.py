"""The stories of ``game-operator demo``."""
