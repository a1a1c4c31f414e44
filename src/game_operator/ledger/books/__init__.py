"""The books as a whole: whether they agree, sums of days, and what maintain drops."""
