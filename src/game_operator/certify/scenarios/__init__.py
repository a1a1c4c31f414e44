"""The scenarios, a module for each group; importing one enters its scenarios into the catalogue."""
