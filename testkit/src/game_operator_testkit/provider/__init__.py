"""What acting as the provider needs: its calls, keys, deliveries, faults, and text for people."""
