"""Whether a file is still the one that was read. No Qt."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Identity(NamedTuple):
    """What tells a changed or replaced file from the one that was read."""

    device: int
    inode: int
    size: int
    modified: int  # nanoseconds


def identity_of(path: Path) -> Identity | None:
    """The identity of the file there is now, or None when there is none or it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
