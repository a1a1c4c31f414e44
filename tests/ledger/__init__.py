"""Tests of the ledgers and of what they rest on."""
