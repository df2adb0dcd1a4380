"""Permissions, owner and extended attributes of a file, preserved when it is replaced."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_READ_AND_WRITE = 0o666


@dataclass(frozen=True, slots=True)
class FileAttributes:
    """Attributes that a new file inherits from the file it replaces."""

    mode: int
    owner: int
    group: int
    extended: Mapping[str, bytes]  # by name; empty where the system or Python does not support them

    @classmethod
    def of(cls, path: Path) -> FileAttributes | None:
        """Return the attributes of the file at a path; None when it does not exist."""
        try:
            status = path.stat()
        except OSError:
            return None
        return cls(stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, _extended(path))

    def apply(self, descriptor: int) -> None:
        """Set the attributes of an open file, as far as the user may. OSError when the mode cannot be set."""
        if hasattr(os, "fchown"):
            new = os.fstat(descriptor)
            if (new.st_uid, new.st_gid) != (self.owner, self.group):
                for owner in (self.owner, -1):  # members of the group may set the group alone
                    with contextlib.suppress(OSError):
                        os.fchown(descriptor, owner, self.group)
                        break
        if sys.platform == "linux":
            for name, value in self.extended.items():
                with contextlib.suppress(OSError):  # unsupported by the file system, or reserved for the administrator
                    os.setxattr(descriptor, name, value)
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, self.mode)


def creation_mode(like: Path | None) -> int:
    """Return the permissions for creating a file: at most those of the file it is derived from, plus owner access."""
    attributes = None if like is None else FileAttributes.of(like)
    return _READ_AND_WRITE if attributes is None else attributes.mode & _READ_AND_WRITE | stat.S_IRUSR | stat.S_IWUSR


def _extended(path: Path) -> dict[str, bytes]:
    attributes: dict[str, bytes] = {}
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            for name in os.listxattr(path):
                with contextlib.suppress(OSError):
                    attributes[name] = os.getxattr(path, name)
    return attributes
