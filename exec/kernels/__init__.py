"""Kernels of all operators; importing this package registers none, `load` imports the modules below it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def load(folder: str = "") -> None:
    """Import every kernel module, or those of one folder, which registers its kernels, and limit BLAS to one thread.

    Idempotent. Any thread.
    """
    within = importlib.import_module(f"{__name__}.{folder}" if folder else __name__)
    for module in pkgutil.walk_packages(within.__path__, f"{within.__name__}."):
        importlib.import_module(module.name)
    importlib.import_module(f"{__name__}.shared.blas").use_one_thread()
