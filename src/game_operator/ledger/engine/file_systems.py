"""
What kind of file system a file of SQLite is on, by Linux's table of mounts.

SQLite shares memory between the processes that have a file open, and locks parts of the file. Over a network neither
works between two machines: both write, and calls are lost. So a ledger on a network file system is refused. Elsewhere
than on Linux, nothing says what kind it is.
"""

import os
import re
from pathlib import Path
from typing import Literal, NamedTuple

from game_operator.errors import ConfigurationError, shown

#: A network file system, one of another machine's or of a program's, one that ends with the machine or its container,
#: or a disk.
Nature = Literal["network", "shared", "volatile", "disk"]

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    (
        *("afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"),
        *("smb2", "smb3", "smbfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.curlftpfs", "fuse.davfs", "fuse.davfs2"),
        *("fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.rclone", "fuse.s3fs"),
        *("fuse.smbnetfs", "fuse.sshfs"),
    )
)
#: Folders of a host in a virtual machine or a sandbox; and ``fuse.…``, behind which any program may stand.
_SHARED = frozenset(("9p", "drvfs", "fakeowner", "prl_fs", "vboxsf", "virtiofs", "vmhgfs"))
_VOLATILE = frozenset(("aufs", "overlay", "ramfs", "tmpfs"))
_ESCAPED = re.compile(r"\\([0-7]{3})")


class FileSystem(NamedTuple):
    """
    A file system that is mounted.

    Attributes:
        kind: Its type, such as ``ext4``.
        mount_point: Where.
    """

    kind: str
    mount_point: str

    @property
    def nature(self) -> Nature:
        """What is to be expected of its kind."""
        if self.kind in _NETWORK:
            return "network"
        if self.kind in _SHARED or self.kind.partition(".")[0] == "fuse":
            return "shared"
        return "volatile" if self.kind in _VOLATILE else "disk"


def mount_table() -> str:
    """Return the mounts that this process sees, as ``/proc/self/mountinfo``; "" if nothing says."""
    try:
        return _MOUNTS.read_text("utf-8", errors="surrogateescape")
    except OSError:
        return ""


def file_system_of(path: str) -> FileSystem | None:
    """Return the file system of *path*, a file that is there or will be; None if it is unknown."""
    real = os.path.realpath(path)
    found: FileSystem | None = None
    for line in mount_table().splitlines():
        before, _, behind = line.partition(" - ")
        point = _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), before.split(" ")[4])
        # What was mounted later at the same place hides what was there.
        if f"{real}/".startswith(f"{point.rstrip('/')}/") and (not found or len(point) >= len(found.mount_point)):
            found = FileSystem(behind.split(" ")[0], point)
    return found


def refuse_network(path: str) -> None:
    """Raise ConfigurationError if *path* is on a network file system."""
    found = file_system_of(path)
    if found is not None and found.nature == "network":
        raise ConfigurationError(
            f"{shown(path)} is on a network file system ({found.kind}, mounted at {shown(found.mount_point)}). "
            "SQLite's locks do not work between machines there, so calls could be lost or applied twice.",
            remedy="Keep the file on a local disk, or use PostgreSQL, which several machines may share.",
        )
