"""What commands share: progress on a terminal, printing of facts, and reading the model they are given."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from model.progress import Progress

if TYPE_CHECKING:
    from model.graph import Model

#: Exit statuses of every command.
EXIT_OK, EXIT_FOUND, EXIT_FAILED = 0, 1, 2

_PATIENCE = 0.3  # seconds before progress shows


@contextmanager
def progress(title: str) -> Iterator[Progress]:
    """A Progress that draws one line on standard error while the block runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    started = time.monotonic()
    drawn = False

    def draw(done: float, total: float, text: str) -> None:
        nonlocal drawn
        if time.monotonic() - started >= _PATIENCE:
            percent = f" {100 * done / total:3.0f} %" if total > 0 else ""
            sys.stderr.write(f"\r\x1b[K{title}{percent} {text}"[:200])
            sys.stderr.flush()
            drawn = True

    try:
        yield Progress(draw)
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def read_model(name: str) -> Model:
    """The model in a file, or on standard input for ``-``; ModelError when it cannot be read."""
    from viewer.opening import read

    with progress(f"Reading {name}") as reading:
        return read(name, reading)


def print_json(facts: Any) -> None:
    """Facts for another program: one JSON object."""
    print(json.dumps(facts, indent=2, ensure_ascii=False))


def print_table(rows: list[tuple[str, ...]], indent: str = "") -> None:
    """Rows in columns as wide as their widest cell; the last column is not padded."""
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        print((indent + "  ".join([*cells, row[-1]])).rstrip())
