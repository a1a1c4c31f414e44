"""The SDK beside the testkit: reconcile."""
