"""What happens when things break: races, killed processes, a database that dies, clocks that step."""
