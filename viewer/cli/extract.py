"""Extract a part of a model: what computes some values from others, or some nodes.

The part is compared with the model on random inputs before it is written. When it differs, nothing is written and the
exit status is 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from onnx_workbench import api
from onnx_workbench.exec.transform.extract import check_part
from onnx_workbench.model.analysis.by_name import graph_named
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.cli.arguments import add_check_arguments
from onnx_workbench.viewer.cli.output import add_output_arguments, print_agreement, write_model
from onnx_workbench.viewer.cli.terminal import EXIT_FOUND, EXIT_OK, load_model, print_json, progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the boundary, and the file to write."""
    add_cut_arguments(parser)
    parser.add_argument("--inputs", nargs="+", default=None, metavar="VALUE", help="values that become inputs")
    parser.add_argument("--outputs", nargs="+", default=None, metavar="VALUE", help="values to compute")
    parser.add_argument(
        "--nodes", nargs="+", default=None, metavar="NODE", help="nodes to extract, instead of --inputs and --outputs"
    )
    add_check_arguments(parser, runs=1)


def add_cut_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of all commands that cut: the model, the graph in it, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    parser.add_argument("--graph", metavar="NAME", default="", help="name of a body or function")
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Cut and write. Without --inputs, whatever inputs of the graph are needed stay its inputs."""
    model = load_model(options)
    part = api.extract(
        model, outputs=options.outputs, inputs=options.inputs, nodes=options.nodes, graph=options.graph, checks=0
    )
    root = graph_named(model, options.graph)
    with progress("Comparing") as comparing:
        agreement = check_part(model, part, root, runs=options.check, progress=comparing)
    if agreement.agrees is not False:
        write_model(part, options)
    if options.json:
        print_json({**part_facts(options.output, part), "check": agreement})
    else:
        print(f"{plural(len(part.graph.nodes), 'node')} of {len(root.nodes)}")
        print_agreement(agreement)
    return EXIT_FOUND if agreement.agrees is False else EXIT_OK


def part_facts(output: Path, part: Model) -> dict[str, Any]:
    """Return a model that was cut out, as plain data."""
    return {
        "output": str(output),
        "nodes": len(part.graph.nodes),
        "inputs": [v.name for v in part.graph.inputs],
        "outputs": [v.name for v in part.graph.outputs],
    }
