"""The daily work: catalogue, journal, reconciliation, campaigns and case files."""
