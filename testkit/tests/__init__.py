"""Tests of game-operator-testkit."""
