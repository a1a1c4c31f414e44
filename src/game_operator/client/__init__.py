"""The operator's side of the Operator API: thin clients that carry bytes and decide nothing (spec §4.2)."""
