"""The commands of the testkit."""
