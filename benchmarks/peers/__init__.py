"""The peers: the same work done by hand, as a good engineer would write it without this package."""
