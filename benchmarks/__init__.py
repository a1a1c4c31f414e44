"""Speed, measured beside what one would write by hand; ``python -m benchmarks`` prints the table."""
