"""Signing with a key that never leaves AWS Key Management Service (extra ``aws``)."""

__all__ = ["AwsKmsSigner"]


class AwsKmsSigner:
    """To come."""
