"""The memory settings can be made at any time, again and again, and nothing depends on them."""

from __future__ import annotations

import sys

import numpy as np

from exec.memory import keep_freed_memory, return_freed_memory


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
