"""Merge another model into a model: values of the model feed its inputs; its other inputs and its outputs are added.

Where opsets differ, the other model is converted. Names that clash get a prefix or a number.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from onnx_workbench import api
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.cli.output import add_output_arguments, write_model
from onnx_workbench.viewer.cli.terminal import EXIT_OK, load_model, print_json, progress, shorten


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Both models, how they are connected, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    parser.add_argument("other", metavar="OTHER", help="model to merge into IN; - reads standard input")
    parser.add_argument(
        "--connect", action="append", metavar="INPUT=VALUE",
        help="feed an input of OTHER by a value of IN (values of equal names and fitting types)",
    )  # fmt: skip
    parser.add_argument("--prefix", default="", help="prefix of names of OTHER that clash (a number is added)")
    parser.add_argument("--cast", action="store_true", help="cast values of IN to the element types that OTHER takes")
    parser.add_argument("--close", action="store_true", help="remove outputs of IN that feed OTHER")
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Read both, merge and write."""
    model, other = load_model(options), load_model(options, options.other)
    connect = None if options.connect is None else connections(options.connect)
    with progress("Merging") as merging:
        merged = api.merge(
            model, other, connect=connect, prefix=options.prefix, keep_outputs=not options.close, cast=options.cast,
            progress=merging,
        )  # fmt: skip
    write_model(model, options)
    nodes, changes = len(merged.nodes), [text for text, _ in merged.report.summary()]
    inputs, outputs = ([v.name for v in values] for values in (model.graph.inputs, model.graph.outputs))
    if options.json:
        facts = {"output": str(options.output), "nodes": nodes, "inputs": inputs, "outputs": outputs}
        print_json(facts | {"changes": changes})
        return EXIT_OK
    for text in changes:
        print(shorten(text, 300, elide="end"))
    print(f"{plural(nodes, 'node')} added; outputs: {shorten(', '.join(outputs), 300, elide='end')}")
    return EXIT_OK


def connections(given: Sequence[str]) -> dict[str, str]:
    """Parse ``INPUT=VALUE`` texts."""
    by_input = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise ModelError(f"{text!r} is not a connection", "Write it as INPUT=VALUE.")
        by_input[name] = value
    return by_input
