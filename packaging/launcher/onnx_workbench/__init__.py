"""ONNX Workbench: see, edit, run and debug ONNX models on the desktop."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent

if not (_FOLDER / "model").is_dir():  # a checkout, where model, exec, viewer and resources lie at the root
    __path__.append(str(_FOLDER.resolve().parents[2]))
