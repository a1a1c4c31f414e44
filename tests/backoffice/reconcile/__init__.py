"""The reconciler: its table, its bets, its repairs, and what may go wrong."""
