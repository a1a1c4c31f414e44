"""What a call does, given what is known: pure."""
