"""The server of ``game-operator serve``."""
