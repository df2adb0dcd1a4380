"""Find the places where a model computes what a pattern does, and list their nodes.

A file holds functions in ONNX text, each in a domain of its own and called pattern; see rewrite. Subgraphs and
functions of the model are searched too. No two places share a node: the first one counts. The exit status is 1 when
there is none.
"""

from __future__ import annotations

import argparse

from onnx_workbench import api
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.simplify.passes import describe
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.cli.terminal import EXIT_FOUND, EXIT_OK, load_model, print_json, progress, shorten

_MOST_NAMED = 4  # nodes of a place on a terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model and the patterns."""
    parser.add_argument("model", metavar="MODEL", help="file to read; - reads standard input")
    parser.add_argument("--pattern", metavar="FILE", required=True, help="patterns in ONNX text")


def run(options: argparse.Namespace) -> int:
    """Search, and print the places of each pattern."""
    model = load_model(options)
    with progress("Searching") as running:
        found = api.find(model, options.pattern, progress=running)
    if options.json:
        facts = {
            name: {"places": [list(map(describe, place)) for place in one.places], "overlapping": one.overlapping}
            for name, one in found.items()
        }
        print_json(facts)
    else:
        for name, one in found.items():
            left_out = f", {one.overlapping:,} left out that share nodes with these" if one.overlapping else ""
            print(shorten(f"{name}: {plural(len(one.places), 'place')}{left_out}", 200))
            for place in one.places:
                print(shorten(f"  {_names(place)}", 200))
    return EXIT_OK if any(one.places for one in found.values()) else EXIT_FOUND


def _names(place: tuple[Node, ...]) -> str:
    rest = f" and {len(place) - _MOST_NAMED:,} more" if len(place) > _MOST_NAMED else ""
    return ", ".join(map(describe, place[:_MOST_NAMED])) + rest
