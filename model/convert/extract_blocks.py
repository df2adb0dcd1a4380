"""Turn repeated blocks of a model into functions and their occurrences into calls."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable
from functools import partial

from onnx_workbench.model.analysis.adjacency import adjacency_of
from onnx_workbench.model.analysis.node_labels import ContentOf, exact_label
from onnx_workbench.model.analysis.node_subset import roots
from onnx_workbench.model.analysis.repeated_blocks import Repeat, repeated_blocks
from onnx_workbench.model.analysis.scoping import unique_name
from onnx_workbench.model.analysis.topology import outer_values
from onnx_workbench.model.convert.report import ConversionReport
from onnx_workbench.model.diff.fingerprints import fingerprint
from onnx_workbench.model.edits.functions import FUNCTIONS_SINCE, call_instead, function_of, is_used_outside
from onnx_workbench.model.edits.nodes import sort_nodes
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.progress import SILENT, Progress

DOMAIN = "local"
LEAST_NODES = 3  # smaller blocks are not worth a function


def extract_blocks(
    edit: Transaction, progress: Progress = SILENT, *, among: Collection[Node] | None = None
) -> ConversionReport:
    """Replace every block that the main graph or a subgraph repeats by calls of a function.

    With `among` only blocks that these nodes contain at least twice, also inside functions.

    Weights and other outer values become inputs of the function; types that differ between occurrences are dropped.
    Inlining restores the nodes. Nodes with unreadable constants in attributes or subgraphs are in no block, with a
    warning. Cost: nodes + edges, a few times, and reading those constants once.
    """
    report = ConversionReport()
    content_of = _Contents(progress)
    tops = [edit.model.graph] if among is None else roots(among)
    for graph in [graph for top in tops for graph in top.walk()]:
        wiring, label_of = adjacency_of(graph, progress), partial(exact_label, content_of=content_of)
        blocks = repeated_blocks(wiring, label_of, progress, among=among, least_nodes=LEAST_NODES)
        for block in blocks:
            progress.check()
            _extract(edit, graph, block, report)
        if blocks:
            sort_nodes(edit, graph)
        _warn_left_out(graph.nodes if among is None else [n for n in graph.nodes if n in among], content_of, report)
    if report.changes and edit.model.ir_version < FUNCTIONS_SINCE:
        edit.do(SetField(edit.model, "ir_version", FUNCTIONS_SINCE))
        report.changed(f"the IR version became {FUNCTIONS_SINCE}, the first with functions", edit.model)
    return report


class _Contents:
    """Hash digests of all elements of constants. Each constant is read once."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._known: dict[Tensor, Hashable] = {}

    def __call__(self, tensor: Tensor) -> Hashable | None:
        if tensor.problem:
            return None
        if tensor not in self._known:
            elements = fingerprint(tensor, self._progress)
            self._known[tensor] = tensor.element_type, tuple(tensor.shape), elements
        return self._known[tensor]


def _warn_left_out(nodes: Iterable[Node], content_of: ContentOf, report: ConversionReport) -> None:
    """Warn about the nodes that could not be compared."""
    for node in nodes:
        if node.op_type != "Constant" and exact_label(node, content_of) is None:
            held = "its attributes or bodies hold what cannot be compared, as constants that are not available"
            report.warn(f"{node.title} is in no block: {held}", node)


def _extract(edit: Transaction, graph: Graph, block: Repeat, report: ConversionReport) -> None:
    inputs, wires = _inputs(block)
    outputs = _outputs(block)
    model = edit.model
    name = _name(model, block)
    first = list(block.occurrences[0])
    function = function_of(graph, first, [v[0] for v in inputs], [v[0] for v in outputs], (DOMAIN, name), wires)
    _forget_other_types(function, block)
    edit.do(SetField(model, "functions", (*model.functions, function)))
    for index, occurrence in enumerate(block.occurrences):
        inside = set(occurrence)
        results = (values[index] for values in outputs)
        needed = tuple(value if is_used_outside(value, inside) else None for value in results)
        call_instead(edit, graph, list(occurrence), function, tuple(values[index] for values in inputs), needed)
    times = len(block.occurrences)
    report.changed(f"{block.size} nodes that occur {times:,} times became the function {name}", function)


def _inputs(block: Repeat) -> tuple[list[tuple[Value, ...]], dict[tuple[Node, int], int]]:
    """Return the block's inputs: per occurrence the outer values, and for each node input of the first occurrence its
    index.

    Outer values of subgraphs follow the inputs of their node. Values that coincide in every occurrence are one input.
    """
    number_of: dict[tuple[Value, ...], int] = {}
    wires = {}
    inside = [set(occurrence) for occurrence in block.occurrences]
    for nodes in zip(*block.occurrences, strict=True):
        taken = [(*node.inputs, *outer_values(node)) for node in nodes]
        for index, value in enumerate(taken[0]):
            if value is None or value.producer in inside[0]:
                continue
            values = tuple(v for v in (own[index] for own in taken) if v is not None)
            wires[nodes[0], index] = number_of.setdefault(values, len(number_of))
    return list(number_of), wires


def _outputs(block: Repeat) -> list[tuple[Value, ...]]:
    """Return, per occurrence, the values that are used outside of at least one occurrence."""
    inside = [set(occurrence) for occurrence in block.occurrences]
    outputs = []
    for nodes in zip(*block.occurrences, strict=True):
        for index, output in enumerate(nodes[0].outputs):
            values = tuple(v for v in (node.outputs[index] for node in nodes) if v is not None)
            if output is not None and any(map(is_used_outside, values, inside)):
                outputs.append(values)
    return outputs


def _forget_other_types(function: Function, block: Repeat) -> None:
    """Remove declared types that do not hold in all occurrences."""
    for nodes, copy in zip(zip(*block.occurrences, strict=True), function.body.nodes, strict=True):
        for index, own in enumerate(copy.outputs):
            outputs = (node.outputs[index] for node in nodes)
            if own is not None and any(v is not None and v.type != own.type for v in outputs):
                own._type = None
        bodies = [[body for outer in node.bodies for body in outer.walk()] for node in (copy, *nodes)]
        for graphs in zip(*bodies, strict=True):
            for own, *others in zip(*map(_defined, graphs), strict=True):
                if any(other.type != own.type for other in others):
                    own._type = None
    for own in function.body.inputs:
        own._type = None


def _defined(graph: Graph) -> list[Value]:
    """Yield the values of a graph, in the same order for equivalent graphs."""
    made = (value for node in graph.nodes for value in node.outputs if value is not None)
    return [*graph.inputs, *graph.initializers, *made]


def _name(model: Model, block: Repeat) -> str:
    """Name the function by the scope of the first occurrence's nodes, without its number."""
    scopes = [node.name.replace("::", "/").split("/")[:-1] for node in block.occurrences[0]]
    shared = [parts[0] for parts in zip(*scopes, strict=False) if len(set(parts)) == 1]
    words = [word for scope in shared if (word := re.sub(r"[\W\d]+", "_", scope).strip("_"))]
    taken = {f.name for f in model.functions} | {n.op_type for g in model.graphs() for n in g.nodes}
    return unique_name(words[-1] if words else "Block", taken)
