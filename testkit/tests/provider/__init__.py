"""What carries and signs the calls of the provider."""
