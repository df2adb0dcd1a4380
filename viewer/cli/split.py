"""Cut a model in two at values: OUT-1 computes them, OUT-2 goes on from there.

What else is computed before the cut and used behind it is passed on too; inputs, constants and functions that nothing
uses are in the first part. Merged again (merge --close), the parts are the model that was split; training graphs, which
are in neither, come back then. Where they are too large to be remembered, that is said.
"""

from __future__ import annotations

import argparse

from onnx_workbench import api
from onnx_workbench.model.edits.split_metadata import lost_by_split
from onnx_workbench.viewer.cli.extract import add_cut_arguments, part_facts, print_lost
from onnx_workbench.viewer.cli.output import write_model
from onnx_workbench.viewer.cli.terminal import EXIT_OK, print_json, read_model, shorten
from onnx_workbench.viewer.style.formatting import plural


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, where to cut, and the files to write."""
    add_cut_arguments(parser)
    parser.add_argument("--at", nargs="+", required=True, metavar="VALUE", help="values to cut at")


def run(options: argparse.Namespace) -> int:
    """Cut and write both."""
    model = read_model(options)
    parts, told = api.split(model, options.at, graph=options.graph), []
    for number, part in enumerate(parts, 1):
        output = options.output.with_stem(f"{options.output.stem}-{number}")
        write_model(part, argparse.Namespace(**{**vars(options), "output": output}))
        told.append(part_facts(output, part))
        if not options.json:
            names = shorten(", ".join(v.name for v in part.graph.outputs), 300, elide="end")
            print(f"{output.name}: {plural(len(part.graph.nodes), 'node')}; outputs: {names}")
    lost = lost_by_split(model, parts)
    if options.json:
        print_json({"parts": told, "lost": lost})
    else:
        print_lost(lost)
    return EXIT_OK
