"""What a release is made of, and the workflows that make it."""
