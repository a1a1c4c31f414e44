"""Many bets of many players at once, with faults, and an audit at the end."""
