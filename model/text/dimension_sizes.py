"""Sizes of named dimensions, written as ``name=size``."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.errors import ModelError

MAX_DIGITS = 18  # always fits 64 bits


def sizes(given: Sequence[str]) -> dict[str, int]:
    """Parse ``name=size`` texts to sizes by name; ModelError for a malformed one."""
    size_by_name = {}
    for text in given:
        name, _, size = text.rpartition("=")
        if not name or not size.isdecimal() or len(size) > MAX_DIGITS:
            raise ModelError(f"{text!r} does not set a dimension", "Write it as NAME=SIZE, such as batch=1.")
        size_by_name[name] = int(size)
    return size_by_name
