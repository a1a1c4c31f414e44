"""The scenarios: modules for each group, and beside each a TOML file that says what its scenarios try."""
