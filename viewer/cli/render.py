"""Draw a model as a PNG, SVG or PDF file or a web page (.html), by the extension of OUT. No display is needed.

A web page is one file that asks the network for nothing: the graph can be moved, zoomed and searched, groups open, and
what is selected shows its facts. It is light or dark as its reader's system.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from onnx_workbench import pictures
from onnx_workbench.exec.inspect.node_data import Matched
from onnx_workbench.model.analysis.by_name import graph_named
from onnx_workbench.viewer.cli.terminal import EXIT_OK, load_model, print_json, print_message, progress
from onnx_workbench.viewer.style.labels import name_of

_GROUPS = {"large": None, "always": True, "never": False}


STANDARD_OUTPUT = "graph.svg"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the file to write, and how to draw."""
    parser.add_argument("model", metavar="MODEL", help="file to read; - reads standard input")
    parser.add_argument(
        "-o", "--output", metavar="OUT", type=Path, required=True,
        help="file to write, .png, .svg, .pdf or .html; - writes SVG to standard output",
    )  # fmt: skip
    parser.add_argument("--graph", metavar="NAME", default="", help="name of a body, function or training graph")
    parser.add_argument("--direction", choices=("down", "right"), default="down", help="direction of the graph (down)")
    parser.add_argument(
        "--groups",
        choices=tuple(_GROUPS),
        default="large",
        help="draw scopes and repeated blocks as groups (large: in graphs of more than 60 nodes)",
    )
    parser.add_argument(
        "--unfold",
        action="store_true",
        help="draw the nodes that compute sizes or prepare weights as boxes of their own, not as tags",
    )
    parser.add_argument("--theme", choices=("light", "dark"), default="light", help="colors of a picture (light)")
    parser.add_argument("--values", metavar="FILE", help="values of a run (.npz), whose ranges stand beside the edges")
    parser.add_argument(
        "--data", metavar="FILE", action="append", type=Path,
        help='colour nodes by numbers or strings by node or value name: .csv, .json such as {"conv1": 3.5}, a profile '
        "of ONNX Runtime or TensorRT, or node data of Model Explorer; given twice: the second minus the first",
    )  # fmt: skip
    parser.add_argument("--data-column", metavar="TITLE", help="another column of the data than the first")
    parser.add_argument("--diff", metavar="OTHER", help="mark what differs from this older model")


def run(options: argparse.Namespace) -> int:
    """Read, lay out, draw, write."""
    model = load_model(options)
    other = None if options.diff is None else load_model(options, options.diff)
    os.environ["QT_QPA_PLATFORM"] = "offscreen"  # also where there is a display: nothing is to be shown
    data = None if not options.data else options.data[0] if len(options.data) == 1 else options.data
    with progress(f"Drawing {options.output.name}") as drawing:
        written = pictures.render(
            model, options.output, graph=options.graph, direction=options.direction, theme=options.theme,
            groups=_GROUPS[options.groups], unfold=options.unfold, values=options.values, other=other, data=data,
            column=options.data_column, progress=drawing,
        )  # fmt: skip
    found = None if data is None else pictures.matched_data(model, data, column=options.data_column)
    if options.json:
        size = {"width": written.width, "height": written.height, "scale": written.scale}
        graph = graph_named(model, options.graph)
        facts = {"output": str(options.output), "graph": graph.name, "nodes": len(graph.nodes)}
        print_json(facts | size | _data_facts(found))
        return EXIT_OK
    if found is not None:
        print_message("note", found.summary())
    if written.loss:
        print(written.loss, file=sys.stderr)
    return EXIT_OK


def _data_facts(found: Matched | None) -> dict[str, Any]:
    """Return the data of nodes by the names of these, and the names that are not in the model."""
    if found is None:
        return {}
    values = [{"node": node.name or name_of(node), "data": value} for node, value in found.values.items()]
    return {"data": {"title": found.title, "names": len(found.names), "unknown": list(found.unknown), "nodes": values}}
