"""Group G."""
