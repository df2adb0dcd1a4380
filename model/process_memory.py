"""Memory of the machine, and how much of it a process that works on a model may use."""

from __future__ import annotations

import os
from typing import Final

#: Addresses that libraries reserve and hardly use.
OVERHEAD: Final = 4 << 30


def physical_memory() -> int:
    """Return the bytes of physical memory; 8 GB if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def process_budget() -> int:
    """Return the bytes that a run or a command may use for all it holds: three quarters of the machine's memory."""
    return physical_memory() * 3 // 4


def limit_memory(size: int) -> None:
    """Let allocations beyond `size` bytes fail in this process instead of driving the machine into swap."""
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit; the memory limit of a run still holds
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = size if hard == resource.RLIM_INFINITY else min(size, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    except (ValueError, OSError):
        pass  # macOS refuses it
