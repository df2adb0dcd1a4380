"""Security policy for external data: which file a model may name, and which bytes of it.

File references in a model are untrusted. This module alone decides; reading, checks and saving all use it. A refused
tensor never prevents a model from opening.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.source import FileSource

_LONGEST_NAME = 4096
_MOST_ENTRIES = 1000  # per tensor; the specification has five keys, and half a million take a second per parse
_MANY_FILES = (1 << 16, 10_240)  # the latter is the maximum on macOS
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_RESERVED = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{n}" for port in ("com", "lpt") for n in "123456789¹²³"}
)

# openat2(2); the number is the same on every architecture Python runs on but alpha.
_OPENAT2: Final = 437
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_BENEATH: Final = 0x08
_NOT_AVAILABLE = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG, errno.EOPNOTSUPP)


class ExternalDataRefused(ModelError):
    """External data that may not or cannot be read; `detail` is the reason, for "data not available: reason"."""

    def __init__(self, reason: str) -> None:
        super().__init__("The external data is not available", reason)


class ExternalData(NamedTuple):
    """The external_data entries of a tensor; `length` is None when absent."""

    location: str
    offset: int
    length: int | None
    checksum: str = ""


def parse_entries(entries: Iterable[tuple[str, str]]) -> ExternalData:
    """Parse the entries of a tensor's external_data; Refused for duplicates, malformed numbers and too many."""
    values: dict[str, str] = {}
    for number, (key, value) in enumerate(entries):
        if number == _MOST_ENTRIES:
            raise ExternalDataRefused(f"more than {_MOST_ENTRIES:,} entries are given")
        if key in values:
            raise ExternalDataRefused(f"the key {key!r} is given twice")
        values[key] = value
    if "location" not in values:
        raise ExternalDataRefused("no location is given")
    length = _number("length", values["length"]) if "length" in values else None
    offset = _number("offset", values["offset"]) if "offset" in values else 0
    return ExternalData(values["location"], offset, length, values.get("checksum", ""))


def _number(key: str, value: str) -> int:
    if not _NUMBER.fullmatch(value):
        raise ExternalDataRefused(f"{key} is {value[:40]!r}, not a plain decimal number")
    return int(value)


def check_location(location: str) -> str:
    """Validate a location as a harmless relative path, without touching the disk; else Refused."""
    reason = _location_problem(location)
    if reason:
        shown = location if len(location) <= 100 else location[:100] + "…"
        raise ExternalDataRefused(f"the location {shown!r} {reason}")
    return location


def _location_problem(location: str) -> str:
    if not location:
        return "is empty"
    if len(location.encode("utf-8", "surrogatepass")) > _LONGEST_NAME:
        return f"is longer than {_LONGEST_NAME:,} bytes"
    if "\0" in location or any(ord(c) < 0x20 or ord(c) == 0x7F for c in location):
        return "has a control character"
    if "\\" in location:
        return "has a backslash"
    if _SCHEME.match(location) or ":" in location:
        return "has a colon, as in a drive or a web address"
    if location.startswith(("/", "~")):
        return "is not relative to the model's folder"
    for part in location.split("/"):
        if part in ("", ".", ".."):
            return f"has the path component {part!r}"
        if part.endswith((" ", ".")):
            return "has a component that ends in a space or dot"
        if part.split(".")[0].rstrip(" ").lower() in _RESERVED:
            return "has a name that is reserved for devices"
    return ""


def check_range(data: ExternalData, needed: int, size: int) -> None:
    """Raise Refused unless offset and length lie within a file of `size` bytes and cover exactly the `needed` bytes."""
    length = needed if data.length is None else data.length
    if length != needed:
        raise ExternalDataRefused(f"length is {length:,} bytes, but the type and shape need {needed:,}")
    if data.offset + length > size:
        raise ExternalDataRefused(
            f"{length:,} bytes at offset {data.offset:,} of {data.location!r} reach beyond its end at {size:,}"
        )


def open_external(
    folder: str | os.PathLike[str], location: str, real_folder: str | os.PathLike[str] | None = None
) -> FileSource:
    """Open a data file named by a model in `folder`; Refused with the reason when that is not allowed.

    The path must stay below the folder after every link is followed, and end at a regular file with a single hard link.
    The open descriptor is checked, so there is no race (TOCTOU).

    `real_folder` is where the model file itself is when it was opened through a link: download caches keep model and
    data as links into a folder of blobs. A data file may then also be below that one, as it could be if the model had
    been opened there.
    """
    check_location(location)
    base = os.path.realpath(folder)  # an empty folder is the current one
    try:
        return _open_below(base, location)
    except ExternalDataRefused:
        if real_folder is None:
            raise
        real_base = os.path.realpath(real_folder)
        inner = os.path.relpath(os.path.realpath(Path(base, location)), real_base).replace(os.sep, "/")
        if _location_problem(inner):
            raise
        return _open_below(real_base, inner)


@cache
def _allow_many_files() -> None:
    """Raise the limit of open files as far as permitted: each data file of a model stays open.

    Models of a thousand files, one per tensor, are common, and some systems allow 256 by default.
    """
    try:
        import resource
    except ImportError:  # Windows: the limit is of another kind, and higher
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in _MANY_FILES:
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


def _open_below(base: str, location: str) -> FileSource:
    _allow_many_files()
    try:
        descriptor = _open_beneath(base, location)
    except (OSError, ValueError) as error:
        raise ExternalDataRefused(_open_problem(location, error)) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ExternalDataRefused(f"{location!r} is not a regular file")
        if status.st_nlink > 1:
            raise ExternalDataRefused(
                f"{location!r} has {status.st_nlink} hard links, so it may be a file from elsewhere"
            )
        return FileSource(descriptor, str(Path(base, location)))
    except BaseException:
        os.close(descriptor)
        raise


def _open_problem(location: str, error: OSError | ValueError) -> str:
    number = getattr(error, "errno", None)
    if number == errno.ENOENT:
        return f"the file {location!r} is missing"
    if number in (errno.EXDEV, errno.ELOOP):
        return f"{location!r} points outside the model's folder; put the file itself there to use it"
    return f"{location!r} cannot be opened: {getattr(error, 'strerror', None) or error}"


def _open_beneath(base: str, location: str) -> int:
    if sys.platform == "linux":
        descriptor = _openat2(base, location)
        if descriptor is not None:
            return descriptor
    return _open_checked(base, location)


def _flags() -> int:
    names = ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY")
    flags = os.O_RDONLY
    for name in names:
        flags |= getattr(os, name, 0)
    return flags


def _openat2(base: str, location: str) -> int | None:
    """Open below a folder with openat2(RESOLVE_BENEATH); None where kernel or sandbox lack it."""
    try:
        syscall = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return None
    folder = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        how = struct.pack("=QQQ", _flags(), 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
        name = os.fsencode(location)
        syscall.restype = ctypes.c_long
        descriptor = syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(name),
            ctypes.c_char_p(how),
            ctypes.c_size_t(len(how)),
        )
        number = ctypes.get_errno()
    finally:
        os.close(folder)
    if descriptor >= 0:
        return int(descriptor)
    if number in _NOT_AVAILABLE:
        return None
    raise OSError(number, os.strerror(number))


def _open_checked(base: str, location: str) -> int:
    """Open without kernel support: resolve, compare, open without following links, compare again."""
    wanted = Path(base, location)
    real = os.path.realpath(wanted)
    _require_inside(base, real)
    descriptor = os.open(real, _flags() | getattr(os, "O_NOFOLLOW", 0))
    try:
        opened = os.fstat(descriptor)
        again = os.path.realpath(wanted)
        _require_inside(base, again)
        now = os.lstat(again)
        if (opened.st_dev, opened.st_ino) != (now.st_dev, now.st_ino):
            raise OSError(errno.EXDEV, "the file was exchanged while it was opened")
        return descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _require_inside(base: str, path: str) -> None:
    if os.path.commonpath([base, path]) != base:
        raise OSError(errno.EXDEV, "it points outside the model's folder")
