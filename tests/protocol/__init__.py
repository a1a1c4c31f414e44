"""Tests of the wire, from both sides."""
