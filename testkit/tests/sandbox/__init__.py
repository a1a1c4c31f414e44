"""Tests of the sandbox, over real HTTP."""
