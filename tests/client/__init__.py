"""Tests of the two clients."""
