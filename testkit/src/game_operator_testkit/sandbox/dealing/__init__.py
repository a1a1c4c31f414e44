"""Rounds as the provider plays them: plans, retries and faults in simulated time."""
