"""Tests of game_operator.webhooks."""
