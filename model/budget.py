"""The budget of memory and time for everything that works on a model: every such limit that is not a format's own.

| What | Memory | Time |
| --- | --- | --- |
| the window: a tensor whose size a number in a file decides | `made_limit` | – |
| the process of runs: all it holds | `process_budget` | the run's time limit, chosen by the user |
| a run: inputs, weights and values | `process_budget`, or less if the user chose so | – |
| one value there; all inputs; kept values | `value_limit`, `input_limit`, `cache_budget` | – |
| a command: all it holds | `process_budget` | `--time-limit`; to write its output as long again |
| a helper with onnx's C++ code | `HELPER_MEMORY`, less for each that needs less | `HELPER_SECONDS` |
| comparing before and after, in a process of its own | `value_limit` | `COMPARISON_SECONDS` |
| ONNX Runtime, in another | `value_limit` | `RUNTIME_SECONDS` |

Values are refused before they are allocated where their size is known; address space is limited besides, where the
system can. A run passes its limits on to its kernels (`exec.kernels.context.Limits`). Limits of the format (nodes,
fields, dimensions) are in `model.io.reader`.
"""

from __future__ import annotations

import os
from typing import Final

#: Addresses that libraries reserve and hardly use.
OVERHEAD: Final = 4 << 30
#: Bytes of a tensor that is made in the window's process because a number in a file or a text says that it has this
#: size: the dense form of a sparse one, an array packed in an archive, a picture. See `made_limit`.
WINDOW_TENSOR: Final = 64 << 20
_MOST_PACKED: Final = 16
#: Address space and seconds of a helper that runs onnx's C++ code.
HELPER_MEMORY: Final = 4 << 30
HELPER_SECONDS: Final = 120
#: Seconds for all runs of a comparison before and after a change, and for a run by ONNX Runtime.
COMPARISON_SECONDS: Final = 15.0
RUNTIME_SECONDS: Final = 600.0


def physical_memory() -> int:
    """Return the bytes of physical memory; 8 GB if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def process_budget() -> int:
    """Return the bytes that a run or a command may use for all it holds: three quarters of the machine's memory."""
    return physical_memory() * 3 // 4


def made_limit(stored: int) -> int:
    """Return the bytes that a tensor may have of which a file holds `stored`: 64 MB, or 16 times as many."""
    return max(WINDOW_TENSOR, _MOST_PACKED * stored)


def value_limit() -> int:
    """Return the bytes that one value of a run may have where the user chose nothing: half of the memory."""
    return physical_memory() // 2


def default_input_limit() -> int:
    """Return the bytes that all inputs of a run may take where nothing was chosen: a quarter of the memory."""
    return physical_memory() // 4


def input_limit(max_tensor: int | None) -> int:
    """Return the bytes that all inputs of a run may take where its largest value may have `max_tensor`, if chosen."""
    return max(max_tensor or 0, default_input_limit())


def cache_budget() -> int:
    """Return the bytes of values that a session keeps from run to run: a quarter of the memory, at most 8 GB."""
    return min(physical_memory() // 4, 8 << 30)


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
