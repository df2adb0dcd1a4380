"""Memory allocator settings: freed memory is kept for the next result instead of returned to the system.

A run that keeps its values allocates and frees hundreds of megabytes. If every large array comes from the system,
touching its pages for the first time costs more than many kernels (a fifth of ResNet-50). And in pages of 4 KB,
address translation takes a tenth of the time of whole models: Linux gives pages of 2 MB to memory that is marked
before it is touched. Only glibc offers the settings; elsewhere both functions do nothing.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from mmap import PAGESIZE
from typing import Any

_TRIM_THRESHOLD = -1  # M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD of malloc.h
_TOP_PAD = -2
_MMAP_THRESHOLD = -3
_LARGEST_MMAP_THRESHOLD = 32 << 20  # above it glibc refuses
_USUAL_TOP_PAD = 128 << 10
_NEVER = (1 << 31) - 1

_HUGE_PAGES = 14  # MADV_HUGEPAGE of mman.h
_BLOCK = _LARGEST_MMAP_THRESHOLD - PAGESIZE  # the largest that malloc takes from the heap
_MARKED = 512 << 20


@cache
def keep_freed_memory() -> bool:
    """Make malloc keep freed arrays of up to 32 MB; return whether it could be set. Once per process, any thread."""
    library = _glibc()
    if library is None:
        return False
    if not (library.mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD) and library.mallopt(_TRIM_THRESHOLD, _NEVER)):
        return False
    _mark_what_comes_next(library)
    return True


def return_freed_memory() -> None:
    """Return free memory to the system: after a model was closed or its values were released. Any thread."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)
        _mark_what_comes_next(library)


def _mark_what_comes_next(library: Any) -> None:
    """Mark the next half gigabyte of the heap for large pages; the system assigns memory only when it is touched.

    The heap grows by all of it at once: a page that is touched before, for the header of a block, would stay small.
    """
    library.mallopt(_TOP_PAD, _MARKED)
    block = library.malloc(_BLOCK)
    library.mallopt(_TOP_PAD, _USUAL_TOP_PAD)
    if block:
        first, end = -(-block // PAGESIZE) * PAGESIZE, library.sbrk(0)
        if first < end:  # else from a heap of this thread, which cannot grow so far
            library.madvise(first, end - first, _HUGE_PAGES)
        library.free(block)


@cache
def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        library.mallopt.argtypes, library.mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
        library.malloc_trim.argtypes, library.malloc_trim.restype = (ctypes.c_size_t,), ctypes.c_int
        library.malloc.argtypes, library.malloc.restype = (ctypes.c_size_t,), ctypes.c_void_p
        library.free.argtypes, library.free.restype = (ctypes.c_void_p,), None
        library.sbrk.argtypes, library.sbrk.restype = (ctypes.c_ssize_t,), ctypes.c_void_p
        library.madvise.argtypes, library.madvise.restype = (
            (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
            ctypes.c_int,
        )
    except (OSError, AttributeError):  # another C library
        return None
    return library
