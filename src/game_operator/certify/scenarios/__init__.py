"""The scenarios: a module for each group, and beside it a TOML file that says what each scenario tries."""
