"""Split a model in two at values: OUT-1 computes them, OUT-2 continues from them.

Other values that are computed before the cut and used after it are passed on too; unused inputs, constants and
functions are in the first part. Merged again (merge --close), the parts are the model that was split; training graphs
return then, unless they are too large, which is reported. The parts are compared with the model on random inputs before
they are written. When they differ, nothing is written and the exit status is 1.
"""

from __future__ import annotations

import argparse

from onnx_workbench import api
from onnx_workbench.exec.transform.extract import check_part
from onnx_workbench.model.analysis.by_name import graph_named
from onnx_workbench.model.edits.extract import left_out
from onnx_workbench.model.text.formatting import left_out_text, plural
from onnx_workbench.viewer.cli.arguments import add_check_arguments
from onnx_workbench.viewer.cli.extract import add_cut_arguments, part_facts
from onnx_workbench.viewer.cli.output import print_agreement, write_model
from onnx_workbench.viewer.cli.terminal import (
    EXIT_FOUND,
    EXIT_OK,
    load_model,
    print_json,
    print_message,
    progress,
    shorten,
)

STANDARD_OUTPUT = ""  # two files cannot be there


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, where to cut, and the files to write."""
    add_cut_arguments(parser)
    parser.add_argument("--at", nargs="+", required=True, metavar="VALUE", help="values to split at")
    add_check_arguments(parser, runs=1)


def run(options: argparse.Namespace) -> int:
    """Cut, compare and write both."""
    model = load_model(options)
    parts = api.split(model, options.at, graph=options.graph, checks=0)
    root = graph_named(model, options.graph)
    with progress("Comparing") as comparing:
        agreements = [check_part(model, part, root, runs=options.check, progress=comparing) for part in parts]
    is_same = all(agreement.agrees is not False for agreement in agreements)
    facts = []
    for number, (part, agreement) in enumerate(zip(parts, agreements, strict=True), 1):
        output = options.output.with_stem(f"{options.output.stem}-{number}")
        if is_same:
            write_model(part, argparse.Namespace(**{**vars(options), "output": output}))
        facts.append(part_facts(output, part) | {"check": agreement})
        if not options.json:
            names = shorten(", ".join(v.name for v in part.graph.outputs), 300, elide="end")
            print(f"{output.name}: {plural(len(part.graph.nodes), 'node')}; outputs: {names}")
            print_agreement(agreement)
    lost = left_out(model, root, parts)
    if options.json:
        print_json({"parts": facts, "lost": lost})
    elif lost:
        print_message("warning", left_out_text(lost))
    return EXIT_OK if is_same else EXIT_FOUND
