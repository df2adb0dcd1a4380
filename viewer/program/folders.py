"""Folders of the program's own files. No Qt."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PRIVATE = 0o700


def state_folder() -> Path:
    """Return the folder for settings, logs and crash journals; it is not created here.

    ``ONNX_WORKBENCH_STATE`` overrides it; otherwise it is the system's place for files of programs.
    """
    override = os.environ.get("ONNX_WORKBENCH_STATE")
    if override:
        return Path(override)
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "ONNX Workbench"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "ONNX Workbench"
    return Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state") / "onnx-workbench"


def make_state_folder() -> Path:
    """Create the state folder, for this user only, and return it; OSError if that fails.

    An existing one is closed to other users, unless it is the user's choice: that folder may serve others too.
    """
    folder = state_folder()
    folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    if "ONNX_WORKBENCH_STATE" not in os.environ and folder.stat().st_mode & ~_PRIVATE & 0o777:
        folder.chmod(_PRIVATE)
    return folder


def journal_folder() -> Path:
    """Return the folder of journals: within the state folder, never next to the model."""
    return state_folder() / "journals"
