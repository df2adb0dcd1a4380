"""Draw a model into a PNG, SVG or PDF file, by the extension of OUT. Needs no display."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model
from onnx_workbench.viewer.cli.terminal import EXIT_OK, print_json, progress, read_model
from onnx_workbench.viewer.style.labels import name_of

SUFFIXES = (".png", ".svg", ".pdf")
_GROUPS = {"large": None, "always": True, "never": False}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the file to write, and how to draw."""
    parser.add_argument("model", metavar="MODEL", help="file to read; - reads standard input")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, required=True, help="file to write")
    parser.add_argument("--graph", metavar="NAME", default="", help="a body, function or training graph by its name")
    parser.add_argument("--direction", choices=("down", "right"), default="down", help="which way the graph runs")
    parser.add_argument(
        "--groups", choices=tuple(_GROUPS), default="large", help="which graphs to draw as their groups; default: large"
    )
    parser.add_argument("--theme", choices=("light", "dark"), default="light", help="colours to draw in")


def run(options: argparse.Namespace) -> int:
    """Read, lay out, draw, write."""
    suffix = options.output.suffix.lower()
    if suffix not in SUFFIXES:
        raise ModelError(f"Cannot draw into {options.output}", f"OUT ends with one of {', '.join(SUFFIXES)}.")
    model = read_model(options.model)
    graph = find_graph(model, options.graph)
    os.environ["QT_QPA_PLATFORM"] = "offscreen"  # fonts and painting work without a display
    from onnx_workbench.viewer.canvas.paint.export import render_graph

    with progress(f"Drawing {options.output.name}") as drawing:
        written = render_graph(
            graph,
            options.output,
            direction=options.direction,
            theme=options.theme,
            groups=_GROUPS[options.groups],
            progress=drawing,
        )
    if options.json:
        size = {"width": written.width, "height": written.height, "scale": written.scale}
        print_json({"output": str(options.output), "graph": graph.name, "nodes": len(graph.nodes), **size})
    elif written.loss:
        print(written.loss, file=sys.stderr)
    return EXIT_OK


def find_graph(model: Model, name: str) -> Graph:
    """The main graph, or the first one with a name: its own, its function's or its body's attribute."""
    if not name:
        return model.graph
    names = []
    for graph in model.graphs():
        if name in (graph.name, name_of(graph), name_of(graph).rpartition("::")[2]):
            return graph
        names.append(name_of(graph))
    raise ModelError(f"There is no graph {name!r}", f"The model has {', '.join(names[:20])}.")
