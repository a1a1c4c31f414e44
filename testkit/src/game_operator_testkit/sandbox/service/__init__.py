"""The Operator API as the provider serves it, and the world behind it."""
