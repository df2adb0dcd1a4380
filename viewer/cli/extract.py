"""Cut out a part of a model: what computes some values from others, or some nodes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from onnx_workbench.model.analysis.scoping import visible_values
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.edits.extract import Extraction, cut_between, cut_out, cut_selection
from onnx_workbench.model.edits.split_metadata import lost_by_split
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.viewer.cli.output import add_output_arguments, write_model
from onnx_workbench.viewer.cli.render import find_graph
from onnx_workbench.viewer.cli.terminal import EXIT_OK, print_json, read_model
from onnx_workbench.viewer.style.formatting import lost_text, plural

Named = TypeVar("Named", Node, Value)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the boundary, and the file to write."""
    add_cut_arguments(parser)
    parser.add_argument("--inputs", nargs="+", default=None, metavar="VALUE", help="values to become inputs")
    parser.add_argument("--outputs", nargs="+", default=None, metavar="VALUE", help="values to compute")
    parser.add_argument("--nodes", nargs="+", default=None, metavar="NODE", help="nodes to cut out, instead of both")


def add_cut_arguments(parser: argparse.ArgumentParser) -> None:
    """What cutting takes, wherever it cuts: the model, the graph in it, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    parser.add_argument("--graph", metavar="NAME", default="", help="a body or function by its name")
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Cut and write. Without --inputs, whatever inputs of the graph are needed stay its inputs."""
    model = read_model(options.model)
    graph = find_graph(model, options.graph)
    cut = _cut(graph, options)
    part = cut_out(model, cut, types_of(model, (*cut.inputs, *cut.outputs)))
    write_model(part, options)
    lost = lost_by_split(model, [part])
    if options.json:
        print_json({**part_facts(options.output, part), "lost": lost})
    else:
        print(f"{plural(len(part.graph.nodes), 'node')} of {len(graph.nodes)}")
        print_lost(lost)
    return EXIT_OK


def print_lost(names: Sequence[str]) -> None:
    """Say what is in no part of a model, where that is so."""
    if names:
        print(f"warning: {lost_text(names)}")


def _cut(graph: Graph, options: argparse.Namespace) -> Extraction:
    if (options.nodes is None) == (options.outputs is None):
        raise ModelError("It is not clear what to cut out", "Give --outputs, with --inputs if you like, or --nodes.")
    if options.nodes is not None:
        if options.inputs is not None:
            raise ModelError("Nodes bring their inputs", "Leave --inputs out, or give --outputs instead of --nodes.")
        return cut_selection(nodes_named(graph.nodes, options.nodes))
    if options.inputs is None:
        inputs = [*graph.inputs, *_taken_from_around(graph)]
    else:
        inputs = _named(visible_values(graph), options.inputs, "value")
    return cut_between(graph, inputs, values_named(graph, options.outputs))


def _taken_from_around(graph: Graph) -> list[Value]:
    """What nodes of a body compute with that the graphs around it have, initializers aside."""
    inside = set(graph.walk())
    used = (value for part in inside for node in part.nodes for value in node.inputs if value is not None)
    return list(dict.fromkeys(v for v in used if v.is_defined and v.graph not in inside and v.initializer is None))


def part_facts(output: Path, part: Model) -> dict[str, Any]:
    """A model that was cut out, as plain data."""
    return {
        "output": str(output),
        "nodes": len(part.graph.nodes),
        "inputs": [v.name for v in part.graph.inputs],
        "outputs": [v.name for v in part.graph.outputs],
    }


def types_of(model: Model, values: Sequence[Value]) -> TypeOf:
    """Declared types, or where one is missing what can be inferred."""
    from onnx_workbench.model.inference import infer

    if all(value.type is not None for value in values):
        return lambda value: value.type
    return infer(model).type_of


def nodes_named(nodes: Iterable[Node], names: Sequence[str]) -> list[Node]:
    """Those of the nodes that have these names; ModelError with names like one that is missing."""
    return _named({node.name: node for node in nodes if node.name}, names, "node")


def values_named(graph: Graph, names: Sequence[str]) -> list[Value]:
    """The values of these names; ModelError with names like one that is missing."""
    return _named({value.name: value for value in graph.values()}, names, "value")


def _named(known: Mapping[str, Named], names: Sequence[str], word: str) -> list[Named]:
    missing = [name for name in names if name not in known]
    if missing:
        import difflib

        near = difflib.get_close_matches(missing[0], known, n=3)
        hint = f"Near it: {', '.join(near)}." if near else f"The graph has {plural(len(known), word)} with a name."
        raise ModelError(f"There is no {word} {missing[0]!r}", hint)
    return [known[name] for name in names]
