"""Tests of the signers."""
