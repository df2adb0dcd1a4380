"""Icons, themes, operator categories and the sample model."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def path(name: str) -> Path:
    """The file of a resource such as ``icons/open.svg``; they always lie unpacked beside this module."""
    return _FOLDER / name
