"""The SDK beside the testkit, which plays the provider for it."""
