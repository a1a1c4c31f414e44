"""The SDK beside the testkit: telemetry."""
