"""Apply a recorded edit script to a model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.source import require_regular
from onnx_workbench.model.scripts import edit_script
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.cli.output import add_output_arguments, write_model
from onnx_workbench.viewer.cli.terminal import EXIT_OK, load_model, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the script and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    parser.add_argument(
        "script", metavar="SCRIPT", help="edit script, as written by Edit > Export Edit Script; - reads standard input"
    )
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Apply all edits of a script or, when one does not fit the model, none."""
    document = Document(load_model(options))
    count = edit_script.replay(document, _read(options.script))
    write_model(document.model, options)
    if options.json:
        print_json({"output": str(options.output), "edits": [e.title for e in list(document.entries())[1:]]})
    else:
        print(f"{plural(count, 'edit')} applied")
    return EXIT_OK


def _read(name: str) -> str:
    try:
        if name == "-":
            return edit_script.text_of(sys.stdin.buffer.read())
        require_regular(Path(name))
        return edit_script.text_of(Path(name).read_bytes())
    except OSError as error:
        raise ModelError(f"{name} cannot be read", error.strerror or str(error)) from error
