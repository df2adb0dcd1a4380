"""Versions of the program and of the libraries it uses."""

from __future__ import annotations

import platform
import tomllib
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "onnx-workbench"


def version() -> str:
    """Return the program's version: of the checkout it runs from, or of the installed distribution."""
    project = Path(__file__).parents[2] / "pyproject.toml"
    if project.exists():  # the metadata of an editable installation may be outdated
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"


def home_page() -> str:
    """Return the address of the project, from its package's metadata, or empty."""
    try:
        urls = metadata.metadata(DISTRIBUTION).get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    address_of = dict(str(line).split(", ", 1) for line in urls)
    return address_of.get("Homepage", "")


def versions() -> dict[str, str]:
    """Return versions for a report: Python, system and libraries. Reads metadata without importing the libraries."""
    version_of = {"ONNX Workbench": version(), "Python": platform.python_version(), "System": platform.platform()}
    libraries = ("numpy", "numkong", "onnx", "protobuf", "ml_dtypes", "networkx", "pyqtgraph", "onnxruntime")
    for name in ("PySide6-Essentials", *libraries):
        try:
            version_of[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return version_of
