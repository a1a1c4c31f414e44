"""Tests of the transport: connections, and what leads to them."""
