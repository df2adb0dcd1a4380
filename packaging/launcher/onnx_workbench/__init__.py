"""ONNX Workbench: see, edit, run and debug ONNX models on the desktop.

The program's packages (model, exec, viewer, resources) lie in a private folder, so nothing generic is installed
and a model.py of the person's own cannot take their place.
"""

from __future__ import annotations

import sys
from pathlib import Path


def use_packages() -> None:
    """Put the folder of the program's packages first on the import path: `app/` here, or the root of a checkout."""
    if getattr(sys, "frozen", False):
        return  # a bundle finds its own modules
    here = Path(__file__).resolve().parent
    packages = here / "app"
    if not packages.is_dir():
        packages = here.parents[2]
    folder = str(packages)
    if sys.path[0] != folder:
        sys.path.insert(0, folder)
