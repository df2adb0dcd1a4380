"""Budgets of memory and time for all work on a model: every limit that is not a limit of a file format.

| What | Memory | Time |
| --- | --- | --- |
| the window: a tensor whose size is a number in a file | `made_limit` | – |
| the process of runs, in total | `process_budget` | the run's time limit, chosen by the user |
| a run: inputs, weights, values and buffers | `process_budget`, or less if the user chose so | – |
| one value of a run; all inputs; cached values | `value_limit`, `input_limit`, `cache_budget` | – |
| a command, in total | `process_budget` | `--time-limit`; the same again to write its output |
| a helper with onnx's C++ code | `HELPER_MEMORY`, or less if it needs less | `HELPER_SECONDS` |
| comparing before and after, in a separate process | `value_limit` | `COMPARISON_SECONDS` |
| quantizing and reducing in the window, in another | `process_budget` | until the user stops it |
| ONNX Runtime, in another | `value_limit` | `RUNTIME_SECONDS` |

Values of known size are refused before they are allocated; address space is limited too, where the system can. A run
passes its limits on to its kernels (`exec.kernels.context.Limits`). Limits of the format (nodes, fields, dimensions)
are in `model.io.reader`.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Final

#: Address space that libraries reserve and hardly use.
OVERHEAD: Final = 4 << 30
#: Maximum bytes of a tensor allocated in the window's process because a number in a file or a text claims this size:
#: the dense form of a sparse one, an array packed in an archive, a picture. See `made_limit`.
WINDOW_TENSOR: Final = 64 << 20
_MOST_PACKED: Final = 16
#: Address space and seconds of a helper that runs onnx's C++ code.
HELPER_MEMORY: Final = 4 << 30
HELPER_SECONDS: Final = 120
#: Time limits in seconds: for all runs of a comparison before and after a change, and for a run by ONNX Runtime.
COMPARISON_SECONDS: Final = 15.0
RUNTIME_SECONDS: Final = 600.0


@cache
def physical_memory() -> int:
    """Return the bytes of physical memory; 8 GB if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def process_budget() -> int:
    """Return the total bytes that a run or a command may use: three quarters of physical memory."""
    return physical_memory() * 3 // 4


def made_limit(stored: int) -> int:
    """Return the maximum bytes of a tensor of which a file stores `stored` bytes: 64 MB, or 16 times `stored`."""
    return max(WINDOW_TENSOR, _MOST_PACKED * stored)


def value_limit() -> int:
    """Return the default limit in bytes of one value of a run: half of physical memory."""
    return physical_memory() // 2


def default_input_limit() -> int:
    """Return the default limit in bytes of all inputs of a run: a quarter of physical memory."""
    return physical_memory() // 4


def input_limit(max_tensor: int | None) -> int:
    """Return the limit in bytes of all inputs of a run; `max_tensor` is the chosen limit of one value, if any."""
    return max(max_tensor or 0, default_input_limit())


def cache_budget() -> int:
    """Return the bytes of values that a session caches between runs: a quarter of physical memory, at most 8 GB."""
    return min(physical_memory() // 4, 8 << 30)


def limit_memory(size: int) -> None:
    """Make allocations beyond `size` bytes fail in this process, before the machine starts swapping."""
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit; the memory limit of a run still applies
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = size if hard == resource.RLIM_INFINITY else min(size, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    except (ValueError, OSError):
        pass  # macOS refuses it
