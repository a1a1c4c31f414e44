"""
The rules of the games: what is drawn in a round, what may be bet on it, and what a bet wins.

Each game returns its stated share exactly, not nearly: money and odds are integers, and where a prize must be whole
cents or stay below the maximum win, the odds make up for it. A bet can tell its ``chances``, so that this is provable
without playing.
"""
