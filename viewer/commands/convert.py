"""Write a model in another form: binary, ONNX text, protobuf text or JSON, with external data in or out."""

from __future__ import annotations

import argparse

from viewer.commands.terminal import EXIT_OK, print_json, read_model
from viewer.commands.writing import add_output_arguments, write_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Read and write."""
    write_model(read_model(options.model), options)
    if options.json:
        print_json({"output": str(options.output)})
    return EXIT_OK
