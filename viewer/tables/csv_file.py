"""Tables in files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from onnx_workbench.model.io.writer.atomic_file import replacing

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet computes a cell that begins so


def as_cell(text: str) -> str:
    """Return a text for a cell of a CSV file: before a formula stands an apostrophe, so that none is computed.

    Names in a model may be formulas, which can send what the sheet holds elsewhere. Numbers stay as they are.
    """
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def write_csv(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write rows of a table to a .csv file; an existing file is kept if that fails. ModelError with the reason.

    Bytes of names that are not UTF-8 become ``\\udcff``; for formulas see `as_cell`.
    """
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        csv.writer(text).writerows(map(as_cell, row) for row in rows)
        text.detach()
