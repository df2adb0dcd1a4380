"""Strip content that a model does not need to run: descriptions, metadata, traces, types of inner values."""

from __future__ import annotations

from collections.abc import Collection

from onnx_workbench.model.analysis.node_subset import is_made, is_used
from onnx_workbench.model.convert.report import ConversionReport
from onnx_workbench.model.edits.interface import inputs_to_initializers_only, remove_unused_inputs
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField, Target
from onnx_workbench.model.ir.graph import Graph, Node, Value

#: What can be removed, and its description.
PARTS = {
    "doc": "descriptions of the model, its graphs, nodes and values",
    "metadata": "metadata of the model, its graphs, nodes and values",
    "traces": "what PyTorch notes of the Python code that nodes come from, other than their scopes",
    "producer": "producer name and version",
    "types": "declared types of intermediate values, which can be inferred",
    "inputs": "unused inputs of the model",
    "defaults": "inputs that have a default: they become constants, which can be folded",
}


_NAME_SCOPES = "pkg.torch.onnx.name_scopes"
_TRACES = frozenset({f"pkg.torch.onnx.{name}" for name in ("class_hierarchy", "fx_node", "stack_trace")})
#: What describes the model as a whole.
OF_THE_MODEL = frozenset({"producer", "inputs", "defaults"})


def strip(edit: Transaction, parts: Collection[str], among: Collection[Node] | None = None) -> ConversionReport:
    """Remove parts; ModelError for one that is not in PARTS.

    With `among` only from these nodes, their subgraphs, their outputs and the constants they use.
    """
    report = ConversionReport()
    for part in parts:
        if part not in PARTS:
            raise ModelError(f"There is no part {part!r}", f"There are: {', '.join(PARTS)}.")
    if among is not None and (whole := OF_THE_MODEL.intersection(parts)):
        what = " and ".join(sorted(whole))
        raise ModelError(f"Those of the whole model: {what}", "They cannot be removed from a selection.")
    model = edit.model
    if "producer" in parts:
        for name in ("producer_name", "producer_version"):
            edit.do(SetField(model, name, ""))
        report.changed("producer removed", model)
    if "inputs" in parts:
        for _ in range(remove_unused_inputs(edit, model.graph)):
            report.changed("unused input removed", model.graph)
    if "defaults" in parts:
        with_default = [value for value in model.graph.inputs if value.initializer is not None]
        inputs_to_initializers_only(edit, model.graph, with_default)
        for value in with_default:
            report.changed("input made constant", value)
    if "traces" in parts and "metadata" not in parts:
        for graph in model.graphs():
            for node in graph.nodes:
                if among is None or _is_among(node, among):
                    _clear_traces(edit, node, report)
    texts = [name for part, name in (("doc", "doc_string"), ("metadata", "metadata")) if part in parts]
    owners: list[Target] = [model, *model.functions] if among is None else []
    for owner in owners:
        _clear(edit, owner, texts, report)
    for graph in model.graphs():
        if among is None or graph.owner in among:
            _clear(edit, graph, texts, report)
        for item in (*graph.nodes, *graph.values()):
            if among is None or _is_among(item, among):
                _clear(edit, item, texts, report)
        if "types" in parts:
            _forget_types(edit, graph, among, report)
    return report


def _is_among(item: Node | Value, among: Collection[Node]) -> bool:
    if isinstance(item, Node):
        return item in among
    return is_made(item, among) or (item.initializer is not None and is_used(item, among))


def _clear(edit: Transaction, item: Target, names: Collection[str], report: ConversionReport) -> None:
    for name in names:
        if getattr(item, name):
            edit.do(SetField(item, name, {} if name == "metadata" else ""))
            report.changed("description removed" if name == "doc_string" else "metadata removed", item)


def _clear_traces(edit: Transaction, node: Node, report: ConversionReport) -> None:
    left_out = _TRACES | {"namespace"} if _NAME_SCOPES in node.metadata else _TRACES  # which says the same
    kept = {key: text for key, text in node.metadata.items() if key not in left_out}
    if len(kept) < len(node.metadata):
        edit.do(SetField(node, "metadata", kept))
        report.changed("trace removed", node)


def _forget_types(edit: Transaction, graph: Graph, among: Collection[Node] | None, report: ConversionReport) -> None:
    shown = {*graph.inputs, *graph.outputs}
    for value in graph.declared:
        if value not in shown and value.type is not None and (among is None or _is_among(value, among)):
            edit.do(SetField(value, "type", None))
            report.changed("declared type removed", value)
