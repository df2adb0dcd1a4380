"""Versions of the program and of the libraries it uses."""

from __future__ import annotations

import platform
import tomllib
from importlib import metadata
from pathlib import Path


def version() -> str:
    """The program's version: of the installed distribution, or of the checkout it runs from."""
    try:
        return metadata.version("onnx-workbench")
    except metadata.PackageNotFoundError:
        project = Path(__file__).parents[2] / "pyproject.toml"
        try:
            return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
        except (OSError, KeyError):
            return "unknown"


def versions() -> dict[str, str]:
    """Versions worth naming in a report: Python, system and the libraries. Reads metadata, imports none of them."""
    found = {"ONNX Workbench": version(), "Python": platform.python_version(), "System": platform.platform()}
    libraries = ("numpy", "onnx", "protobuf", "ml_dtypes", "networkx", "pyqtgraph", "onnxruntime")
    for name in ("PySide6-Essentials", *libraries):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
