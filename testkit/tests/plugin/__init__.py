"""Tests of the pytest plugin and what its fixtures give."""
