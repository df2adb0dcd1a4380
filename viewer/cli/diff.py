"""List the differences of two models: nodes, attributes, types, descriptions and weights.

The exit status is 0 when there are none, 1 when there are some. With --summary one model is printed as text, in lines
that stay the same as long as what they describe does, for git's textconv; of a file that is not a model, the reason.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_workbench import api
from onnx_workbench.model.analysis.node_subset import concerns, part_of
from onnx_workbench.model.diff import Comparison, Difference
from onnx_workbench.model.diff.fingerprints import fingerprint
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model, Node
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.text.attributes import attribute_source, has_text
from onnx_workbench.model.text.formatting import display, plural, shape_text, type_text
from onnx_workbench.viewer.cli.node_selection import add_nodes_argument, chosen_nodes
from onnx_workbench.viewer.cli.terminal import (
    EXIT_FOUND,
    EXIT_OK,
    error_lines,
    load_model,
    print_json,
    progress,
    shorten,
)
from onnx_workbench.viewer.compare.difference_text import difference_line

if TYPE_CHECKING:
    from onnx_workbench.model.ir.attributes import Attribute


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The models, and what to leave out."""
    parser.add_argument("old", metavar="A", help="old model; - reads standard input")
    parser.add_argument("new", metavar="B", nargs="?", help="new model")
    parser.add_argument("--no-weights", action="store_true", help="compare only types and shapes of weights")
    parser.add_argument(
        "--ignore", action="append", default=[], choices=("renamed", "moved"), help="leave out differences of this kind"
    )
    add_nodes_argument(parser, "list only differences at these, of either model")
    parser.add_argument("--summary", action="store_true", help="print one model as text (for git textconv)")


def run(options: argparse.Namespace) -> int:
    """Compare and print."""
    if options.summary:
        _print_summary(options)
        return EXIT_OK
    if options.new is None:
        raise ModelError("There is only one model", "Name two models, or use --summary.")
    # Git gives /dev/null for the side where a file does not exist.
    old, new = (Model() if name == "/dev/null" else load_model(options, name) for name in (options.old, options.new))
    nodes = chosen_nodes(options.nodes, old, new)
    with progress("Comparing") as comparing:
        comparison = api.diff(old, new, weights=not options.no_weights, progress=comparing)
    comparison.differences = [d for d in comparison.differences if d.kind not in options.ignore]
    if nodes is not None:
        part = part_of(nodes)
        comparison.differences = [d for d in comparison.differences if concerns(d.old, part) or concerns(d.new, part)]
    if options.json:
        print_json({"old": options.old, "new": options.new, "differences": [facts(d) for d in comparison.differences]})
    else:
        _print(comparison)
    return EXIT_FOUND if comparison else EXIT_OK


def _print_summary(options: argparse.Namespace) -> None:
    """Print a model as text, or why it is none: git gives up a whole diff where it gets no text of one file."""
    try:
        for line in summary(load_model(options, options.old, salvage=True)):
            print(line)
    except ModelError as error:
        if not Path(options.old).exists():
            raise
        for line in error_lines(error):
            print(line)


def _print(comparison: Comparison) -> None:
    for difference in comparison.differences:
        print(shorten(difference_line(difference), 400, elide="end"))
    counts = Counter(d.kind for d in comparison.differences)
    counted = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    print(f"{plural(len(comparison.differences), 'difference')}: {counted}" if counted else "no differences")


def facts(difference: Difference) -> dict[str, Any]:
    """Return a difference as plain data."""
    place = difference.place
    entry: dict[str, Any] = {
        "kind": difference.kind,
        "subject": difference.subject,
        "graph": getattr(getattr(place, "graph", None), "name", ""),
        "old": getattr(difference.old, "name", None),
        "new": getattr(difference.new, "name", None),
        "operator": getattr(place, "op_type", ""),
        "aspect": difference.aspect,
        "before": difference.before,
        "after": difference.after,
    }
    numbers = difference.numbers
    if numbers is not None and not numbers.problem:
        entry["numbers"] = {
            "size": numbers.size,
            "unequal": numbers.unequal,
            "max_abs": numbers.max_abs,
            "mean_abs": numbers.mean_abs,
            "cosine": numbers.cosine,
        }
    return entry


# -- one model as text ---------------------------------------------------------------------------------------------


def summary(model: Model) -> Iterator[str]:
    """One line for each thing a user would call a change; weights by type, shape and a digest of their values."""
    for problem in model.source.problems if model.source is not None else ():
        yield f"problem {display(problem, 2000, elide='end')}"
    yield f"ir_version {model.ir_version}"
    for domain, version in sorted(model.opset_imports.items()):
        yield f"opset {domain or 'ai.onnx'} {version}"
    for field in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
        content = getattr(model, field)
        if content:
            yield f"{field} {display(str(content), 2000, elide='end')}"
    for key, text in model.metadata.items():
        yield f"metadata {display(key)} {display(text, 2000, elide='end')}"
    yield from _graph_lines(model.graph, f"graph {display(model.graph.name)}")
    for function in model.functions:
        yield from _graph_lines(function.body, f"function {display(function.domain)}::{display(function.name)}")
    for training in model.training_info:
        for graph in (training.initialization, training.algorithm):
            if graph is not None:
                yield from _graph_lines(graph, f"training graph {display(graph.name)}")


def _graph_lines(root: Graph, title: str) -> Iterator[str]:
    for graph in root.walk():
        yield ""
        yield title if graph is root else f"body {display(graph.name)} of {_owner(graph)}"
        for word, values in (("input", graph.inputs), ("output", graph.outputs)):
            for value in values:
                yield f"  {word} {display(value.name)} {type_text(value.type)}"
        for value in graph.initializers:
            yield f"  initializer {display(value.name)} {_constant(value.initializer)}"
        for node in graph.nodes:
            yield f"  {_node_line(node)}"


def _owner(graph: Graph) -> str:
    return display(graph.owner.title) if isinstance(graph.owner, Node) else ""


def _node_line(node: Node) -> str:
    outputs = ", ".join(display(v.name) if v is not None else '""' for v in node.outputs)
    inputs = ", ".join(display(v.name) if v is not None else '""' for v in node.inputs)
    attributes = ", ".join(f"{display(a.name)}={_attribute(a)}" for a in node.attributes.values())
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    name = f"[{display(node.name)}] " if node.name else ""
    return f"{name}{outputs} = {display(operator)}" + (f"<{attributes}>" if attributes else "") + f"({inputs})"


def _attribute(attribute: Attribute) -> str:
    if attribute.reference:
        return f"@{display(attribute.reference)}"
    if has_text(attribute.kind):
        return display(attribute_source(attribute, 64), 400, elide="end")
    value = attribute.value
    if isinstance(value, (Tensor, SparseTensor)):
        return _constant(value)
    return attribute.kind.name.lower()


def _constant(tensor: Tensor | SparseTensor | None) -> str:
    if tensor is None:
        return ""
    kind = getattr(tensor.element_type, "text", str(tensor.element_type))
    return f"{kind} {shape_text(tensor.shape)} {_digest(tensor)}"


def _digest(tensor: Tensor | SparseTensor) -> str:
    """Return the values themselves where they are few, else a fingerprint of them."""
    if isinstance(tensor, SparseTensor):
        return f"{_digest(tensor.indices)} {_digest(tensor.values)}"
    if tensor.problem:
        return "(not available)"
    return display(str(tensor.numpy().tolist()), 200) if tensor.size <= 8 else fingerprint(tensor)[:16]
