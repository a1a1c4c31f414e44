"""What tests in several places need."""
