"""Tests of the tutorials, by a reader in an empty folder."""
