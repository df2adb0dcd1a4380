"""Kernels of all operators; importing this package registers none, `load` imports every module below it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def load() -> None:
    """Import every kernel module, which registers its kernels, and limit BLAS to one thread; idempotent. Any thread."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    importlib.import_module(f"{__name__}.shared.blas").use_one_thread()
