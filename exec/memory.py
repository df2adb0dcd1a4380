"""How this process handles memory that is given back: kept for the next result instead of returned to the system.

A run that keeps its values allocates and frees hundreds of megabytes. Where every large array comes from the system
anew, touching its pages for the first time costs more than many kernels (a fifth of ResNet-50). Only glibc offers the
setting; elsewhere both functions do nothing.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

_TRIM_THRESHOLD = -1  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_MMAP_THRESHOLD = -3
_LARGEST_MMAP_THRESHOLD = 32 << 20  # above it glibc refuses
_NEVER = (1 << 31) - 1


@cache
def keep_freed_memory() -> bool:
    """Let freed arrays up to 32 MB stay with the process; whether that could be set. Once per process, any thread."""
    library = _glibc()
    if library is None:
        return False
    return bool(library.mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD) and library.mallopt(_TRIM_THRESHOLD, _NEVER))


def return_freed_memory() -> None:
    """Hand back to the system what is free now: after a model was closed or its values were let go of. Any thread."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


@cache
def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        library.mallopt.argtypes, library.mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
        library.malloc_trim.argtypes, library.malloc_trim.restype = (ctypes.c_size_t,), ctypes.c_int
    except (OSError, AttributeError):  # another C library
        return None
    return library
