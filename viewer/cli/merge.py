"""Bring another model into one: its inputs are fed by values here, what is left becomes inputs and outputs.

Where the models import other operator sets, the one that comes in is converted; names that clash get a prefix.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from onnx_workbench.model.analysis.scoping import visible_values
from onnx_workbench.model.convert.align_for_merge import align, clashing_functions
from onnx_workbench.model.edits.copy_paste import merge
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.inference.infer import compatible
from onnx_workbench.model.ir.graph import Graph
from onnx_workbench.viewer.cli.extract import values_named
from onnx_workbench.viewer.cli.output import add_output_arguments, write_model
from onnx_workbench.viewer.cli.terminal import EXIT_OK, print_json, progress, read_model
from onnx_workbench.viewer.style.formatting import display, plural


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Both models, how they are connected, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    parser.add_argument("other", metavar="OTHER", help="the model to bring in")
    parser.add_argument(
        "--connect", action="append", metavar="INPUT=VALUE",
        help="feed an input of OTHER by a value of IN; without this, by values of equal names whose types fit",
    )  # fmt: skip
    parser.add_argument("--prefix", default="", help="put before names of OTHER that are taken; otherwise a number")
    parser.add_argument(
        "--close", action="store_true", help="outputs of IN that feed OTHER do not stay outputs of the whole"
    )
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Read both, merge and write."""
    document, other = Document(read_model(options.model)), Document(read_model(options.other))
    model = document.model
    with progress("Merging") as merging:
        clashes = clashing_functions(model, other.model)
        report = align(other, model.opset_imports, clashes, merging)
    links = same_names(model.graph, other.model.graph) if options.connect is None else connections(options.connect)
    values_named(model.graph, [*links.values()])  # names what is near one that is missing
    with document.edit("Merge") as edit:
        nodes = merge(edit, model.graph, other.model, links, prefix=options.prefix, keep_outputs=not options.close)
    write_model(model, options)
    inputs, outputs = ([v.name for v in values] for values in (model.graph.inputs, model.graph.outputs))
    if options.json:
        told = [text for text, _ in report.summary()]
        print_json(
            {"output": str(options.output), "nodes": len(nodes), "inputs": inputs, "outputs": outputs, "changes": told}
        )
        return EXIT_OK
    for text, _ in report.summary():
        print(display(text, 300, elide="end"))
    print(f"{plural(len(nodes), 'node')} came in; outputs: {display(', '.join(outputs), 300, elide='end')}")
    return EXIT_OK


def same_names(graph: Graph, part: Graph) -> dict[str, str]:
    """Inputs of a part and the values of a graph that may feed them: of the same name, and of types that fit."""
    here, found = visible_values(graph), {}
    for value in part.inputs:
        giver = here.get(value.name)
        if giver is None or value.initializer is not None:
            continue
        if giver.type is None or value.type is None or compatible(giver.type, value.type):
            found[value.name] = value.name
    return found


def connections(given: Sequence[str]) -> dict[str, str]:
    """What ``INPUT=VALUE`` texts say."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise ModelError(f"{text!r} connects nothing", "Write it as INPUT=VALUE.")
        found[name] = value
    return found
