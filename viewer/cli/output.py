"""What commands that write a model share: where to, and how tensors are stored."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from onnx_workbench import api
from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.cli.arguments import natural
from onnx_workbench.viewer.cli.terminal import print_message, progress, shorten

if TYPE_CHECKING:
    from onnx_workbench.exec.inspect.equivalence import Equivalence
    from onnx_workbench.model.io.writer.save import Saved
    from onnx_workbench.model.ir.graph import Model
    from onnx_workbench.model.ir.tensors import Tensor


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """OUT and the storage of tensors."""
    parser.add_argument(
        "-o", "--output", metavar="OUT", type=Path, required=True,
        help="file to write; the extension chooses the format: .onnx, .onnxtxt, .textproto, .pbtxt or .json (binary); "
        "- is standard output",
    )  # fmt: skip
    parser.add_argument(
        "--external",
        choices=get_args(api.External),
        default="keep",
        help="where the values of tensors are stored (keep)",
    )
    parser.add_argument(
        "--threshold", type=natural, default=1024, metavar="BYTES", help="least size of external tensors (1024)"
    )


@contextmanager
def to_standard_output(options: argparse.Namespace, name: str) -> Iterator[None]:
    """Write the file of a command whose output is ``-`` to standard output, and what it prints to standard error.

    `name` is the file that the command writes instead, in a folder that is removed. ModelError for options that need
    standard output or a folder for themselves.
    """
    if getattr(options, "json", False):
        raise ModelError("-o - cannot be used with --json", "Standard output is the file.")
    if getattr(options, "external", "keep") not in ("keep", "inline"):
        raise ModelError("-o - cannot be used with --external", "Data files are written beside a file.")
    if sys.stdout.isatty():
        raise ModelError("Standard output is a terminal", "Redirect it to a file or a pipe, or name a file.")
    if hasattr(options, "external"):
        options.external = "inline"
    with tempfile.TemporaryDirectory() as folder:
        options.output = Path(folder) / name
        with redirect_stdout(sys.stderr):
            yield
        if options.output.exists():
            with options.output.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)


def print_agreement(agreement: Equivalence, label: str = "") -> None:
    """Print the result of a comparison, and on lines of their own what was not compared."""
    print(shorten(label + agreement.summary, 500, elide="end"))
    for remark in agreement.remarks:
        print(shorten(f"  {remark}", 500, elide="end"))


def write_model(model: Model, options: argparse.Namespace, among: Collection[Tensor] | None = None) -> Saved:
    """Write to OUT atomically and say what is not in it; ModelError when it cannot be done.

    `among` are the tensors that --external is about, where these are not all. A file with external data is loaded by
    ONNX Runtime and onnx.checker afterwards, unless the command has no comparison or was asked for none.
    """
    from onnx_workbench.exec.inspect.self_check import check_written
    from onnx_workbench.model.io.reader.sniff import FileForm
    from onnx_workbench.model.io.writer.save import form_for, names_form

    with progress(f"Writing {options.output.name}") as writing:
        saved = api.save(
            model, options.output, external=options.external, threshold=options.threshold, tensors=among,
            progress=writing,
        )  # fmt: skip
    checks: int = getattr(options, "check", 0)
    if checks and saved.data_files and form_for(options.output, model.source) is FileForm.BINARY:
        with progress("Loading the written file") as loading:
            check_written(model, saved.path, loading)
    if not names_form(options.output):
        form = form_for(options.output, model.source).value
        print_message("note", f"{options.output.name} was written as {form}; its extension names no format")
    for warning in (*saved.left_out, *saved.warnings):
        print_message("warning", warning)
    return saved
