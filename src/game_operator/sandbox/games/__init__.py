"""The games: what is drawn in a round, what may be bet on it, and what a bet wins."""
