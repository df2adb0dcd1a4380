"""What commands share: progress on a terminal, messages, tables and JSON, and reading the model they are given."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, TextIO

from onnx_workbench.model.progress import Progress

if TYPE_CHECKING:
    from onnx_workbench.model.errors import ModelError
    from onnx_workbench.model.ir.graph import Model

#: Exit statuses of every command.
EXIT_OK, EXIT_FOUND, EXIT_FAILED = 0, 1, 2

_NOTICE_SECONDS = 0.3  # seconds before progress shows
_LONGEST_MESSAGE = 2000  # characters
_COLORS = {"error": 1, "missing": 1, "warning": 3, "note": 6}  # red, yellow, cyan


@contextmanager
def progress(title: str) -> Iterator[Progress]:
    """A Progress that draws one line on standard error while the block runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    from onnx_workbench.model.text.formatting import display

    started = time.monotonic()
    drawn = False

    def draw(done: float, total: float, text: str) -> None:
        nonlocal drawn
        if time.monotonic() - started >= _NOTICE_SECONDS:
            percent = f" {100 * done / total:3.0f} %" if total > 0 else ""
            columns = shutil.get_terminal_size().columns - 1  # a line that wraps could not be taken back
            line = display(f"{title}{percent} {text}".rstrip(), 1000)[:columns]
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
            drawn = True

    try:
        yield Progress(draw)
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def load_model(options: argparse.Namespace, name: str | None = None, *, salvage: bool = False) -> Model:
    """Return the model that a command is given, or a further one by its `name`; ``-`` is standard input.

    ModelError when it cannot be read, or when the file ends early, unless --salvage or the command (`salvage`) takes
    what is left; what is missing is then named.
    """
    from onnx_workbench import api

    named = options.model if name is None else name
    with progress(f"Reading {named}") as reading:
        model = api.load(named, salvage=salvage or options.salvage, progress=reading)
    if options.salvage and model.source is not None and model.source.truncation:
        print_message("warning", model.source.truncation)
    return model


def shorten(text: str, limit: int, *, elide: Literal["middle", "end"] = "middle") -> str:
    """Return a text for standard output: of at most `limit` characters on a terminal, whole in a file or a pipe."""
    from onnx_workbench.model.text.formatting import display

    return display(text, limit if sys.stdout.isatty() else len(text), elide=elide)


def colored(text: str, color: int, stream: TextIO) -> str:
    """Return a text in one of the eight colors of terminals; as it is elsewhere, or where NO_COLOR is set."""
    has_color = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{30 + color}m{text}\x1b[0m" if has_color else text


def print_message(kind: Literal["error", "warning", "note", "missing"], text: str) -> None:
    """Print an error, warning or note on standard error, after its kind."""
    from onnx_workbench.model.text.formatting import display

    safe = display(text, _LONGEST_MESSAGE, elide="end")
    print(f"{colored(kind, _COLORS[kind], sys.stderr)}: {safe}", file=sys.stderr)


def print_error(error: ModelError) -> None:
    """Print an error on standard error: what, why and where."""
    first, *others = error_lines(error)
    kind, colon, text = first.partition(":")
    print("\n".join([colored(kind, _COLORS["error"], sys.stderr) + colon + text, *others]), file=sys.stderr)


def error_lines(error: ModelError) -> list[str]:
    """Return the lines of an error: what, why and where."""
    from onnx_workbench.model.text.formatting import display
    from onnx_workbench.viewer.style.labels import place_text

    place = place_text(error.place)
    lines = [f"error: {error.title}"]
    if error.detail:
        lines.append(f"  {error.detail}")
    if place:
        lines.append(f"  at {place}")
    return [display(line, _LONGEST_MESSAGE, keep_lines=True) for line in lines]


def print_json(facts: Any) -> None:
    """Facts for another program: one JSON text. What the output's encoding cannot say is escaped as JSON does it."""
    text = json_text(facts)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # bytes that were not UTF-8 in the file, or an output that is not
        text = json_text(facts, ascii_only=True)
    print(text)


def json_text(facts: Any, *, ascii_only: bool = False) -> str:
    """Return facts as JSON: dataclasses by their fields; numbers that JSON lacks, such as infinity, as texts."""
    return json.dumps(_plain(facts), indent=2, ensure_ascii=ascii_only)


def _plain(facts: Any) -> Any:
    if isinstance(facts, dict):
        return {key: _plain(fact) for key, fact in facts.items()}
    if isinstance(facts, (list, tuple)):
        return [_plain(fact) for fact in facts]
    if is_dataclass(facts):
        return {each.name: _plain(getattr(facts, each.name)) for each in fields(facts)}
    is_known = facts is None or isinstance(facts, (int, str)) or (isinstance(facts, float) and math.isfinite(facts))
    return facts if is_known else str(facts)


def print_table(rows: Sequence[tuple[str, ...]], indent: str = "") -> None:
    """Rows in columns as wide as their widest cell; the last column is not padded."""
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        print((indent + "  ".join([*cells, row[-1]])).rstrip())
