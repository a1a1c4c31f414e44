"""Where a webhook was posted, below a prefix of one's own and below where a framework has mounted us."""

__all__ = ["normal_prefix", "path_below"]


def normal_prefix(prefix: str) -> str:
    """Return *prefix* with one slash before it and none behind; "" for none."""
    stripped = prefix.strip("/")
    return f"/{stripped}" if stripped else ""


def path_below(path: str, mounted_at: str, prefix: str) -> str:
    """
    Return what of *path* lies below *prefix*.

    Servers disagree on whether *path* begins with where the application is mounted; both are understood. What does not
    lie below the prefix comes back as text that is no path of ours.
    """
    if not mounted_at and not prefix:
        return path
    for base in (mounted_at + prefix, prefix):
        if path.startswith(f"{base}/"):
            return path[len(base) :]
    return f"{path} (outside {mounted_at + prefix})"
