"""The SDK beside the testkit: case."""
