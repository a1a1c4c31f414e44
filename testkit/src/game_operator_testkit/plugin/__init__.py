"""For the test suite of an operator: a pytest plugin, loaded by installation, and what its fixtures are made of."""
