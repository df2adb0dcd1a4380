"""The memory settings can be made at any time, again and again, and nothing depends on them."""

from __future__ import annotations

import sys
from mmap import PAGESIZE
from pathlib import Path

import numpy as np
import pytest

from onnx_workbench.exec.values.malloc import keep_freed_memory, return_freed_memory


def test_settings_hold_on_glibc_and_are_harmless_elsewhere() -> None:
    kept = keep_freed_memory()
    assert isinstance(kept, bool)
    assert keep_freed_memory() is kept
    if not sys.platform.startswith("linux"):
        assert not kept
    block = np.ones(1 << 20)
    del block
    return_freed_memory()
    return_freed_memory()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the memory of a process is read from /proc")
def test_making_ready_for_what_comes_takes_no_memory_yet() -> None:
    keep_freed_memory()
    before = _resident()
    for _ in range(10):
        return_freed_memory()
    assert _resident() - before < 64 << 20


def _resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGESIZE
