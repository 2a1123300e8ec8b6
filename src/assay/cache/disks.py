"""Disks: whether a file lies on this machine or on one that others share."""

import sys
from pathlib import Path

NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"orangefs", "panfs", "smb2", "smb3", "smbfs", "virtiofs", "wekafs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"}
)
"""File systems, as the kernel names them, that several hosts may use at once."""


def network_disk(path: Path) -> str | None:
    """The kind of network disk that a path lies on; None for a local one, or where nobody says."""
    if sys.platform != "linux":
        return None
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    kind = mounted_kind(path.absolute(), mounts)
    return kind if kind in NETWORK else None


def mounted_kind(path: Path, mounts: str) -> str | None:
    """The file system that a path lies on, by the kernel's list of mounts.

    >>> mounted_kind(Path("/home/ada/x"), "1 0 0:1 / / rw - ext4 /dev/sda rw\\n2 1 0:2 / /home rw - nfs4 h:/ rw")
    'nfs4'
    """
    best, kind = Path(), None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        place = Path(fields[4].replace("\\040", " "))
        # Of two mounts on one place the later hides the earlier.
        if path.is_relative_to(place) and len(place.parts) >= len(best.parts):
            best, kind = place, after.split()[0]
    return kind
