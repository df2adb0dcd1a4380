"""Tables in files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from onnx_workbench.model.io.writer.atomic_file import replacing


def write_csv(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write rows of a table to a .csv file; an existing file is kept if that fails. ModelError with the reason.

    Bytes of names that are not UTF-8 become ``\\udcff``.
    """
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        csv.writer(text).writerows(rows)
        text.detach()
