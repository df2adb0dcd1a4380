"""Constants: move to initializers, deduplicate, and fold (constant folding)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.diff.fingerprints import fingerprint
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Function, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, Tensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.simplify.context import MatchContext, is_returned_elsewhere
from onnx_workbench.model.simplify.passes import Match, Pass, describe

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLD = "fold_constants"

_MOST_OUTPUTS = 64

_NARROW = frozenset({
    ElementType.INT8, ElementType.UINT8, ElementType.INT4, ElementType.UINT4, ElementType.INT2, ElementType.UINT2,
    ElementType.FLOAT8E4M3FN, ElementType.FLOAT8E4M3FNUZ, ElementType.FLOAT8E5M2, ElementType.FLOAT8E5M2FNUZ,
    ElementType.FLOAT8E8M0, ElementType.FLOAT4E2M1, ElementType.FLOAT6E2M3, ElementType.FLOAT6E3M2,
})  # fmt: skip


def _extract(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Constant"):
        graph, output = node.graph, node.outputs[0] if node.outputs else None
        tensor = context.constant(output)
        if graph is None or output is None or tensor is None or isinstance(graph.root.owner, Function):
            continue
        if output.is_output or context.is_protected(output) or context.model.ir_version < 4:
            continue
        yield Match(
            f"{output.name} becomes an initializer", (node,), partial(GraphRewriter.fold, node=node, tensors=[tensor])
        )


def _duplicates(context: MatchContext) -> Iterator[Match]:
    if context.options.nodes is not None:
        return
    for graph in context.graphs:
        if not context.is_alive(graph):
            continue
        by_kind: dict[Hashable, list[Value]] = {}
        for value in graph.initializers:
            tensor = context.constant(value)
            if tensor is not None and value.uses:
                by_kind.setdefault((tensor.element_type, tuple(tensor.shape)), []).append(value)
        for values in by_kind.values():
            if len(values) > 1:
                yield from _equal_among(context, values)


def _equal_among(context: MatchContext, values: list[Value]) -> Iterator[Match]:
    kept: dict[Hashable, Value] = {}
    for value in values:
        key = _fingerprint(context.constant(value), context.progress)
        first = kept.setdefault(key, value) if key is not None else value
        if first is value or not context.can_replace(value, first) or value.graph is not first.graph:
            continue
        yield Match(f"{value.name} is equal to {first.name}", (), partial(_share, value, first), (value, first))


def _fingerprint(tensor: Tensor | None, progress: Progress) -> Hashable:
    """Return a digest of the data, equal for equal tensors of one type and shape. Reads the data, in chunks."""
    if tensor is None or tensor.problem:
        return None
    try:
        return fingerprint(tensor, progress)
    except (ModelError, ValueError, OSError):
        return None


def _share(value: Value, first: Value, rewriter: GraphRewriter) -> None:
    rewriter.replace_value(value, first)
    rewriter.drop_constant(value)


def _fold(context: MatchContext) -> Iterator[Match]:
    if context.evaluate is None:
        return
    for node in list(context.all_nodes()):
        if node.graph is None or not _is_foldable(context, node):
            continue
        results = compute(context, node)
        if results is not None and context.can_hold(node, results):
            yield Match(
                f"{describe(node)}: all inputs are constant", (node,), partial(_apply_fold, context, node, results),
                tuple(v for v in node.outputs if v is not None),
            )  # fmt: skip


def _is_foldable(context: MatchContext, node: Node) -> bool:
    if node.domain not in ("", "com.microsoft", "ai.onnx.ml") or node.op_type == "Constant" or node.bodies:
        return False
    if not node.outputs or len(node.outputs) > _MOST_OUTPUTS or node.device_configurations:
        return False
    if any(a.reference for a in node.attributes.values()) or not context.is_chosen(node):
        return False
    if not all(v is None or context.constant(v) is not None for v in node.inputs):
        return False
    if any(v is not None and (context.is_protected(v) or is_returned_elsewhere(v)) for v in node.outputs):
        return False
    if node.op_type == "Optional" and not node.domain:  # its output is no tensor, whatever it contains
        return False
    if not context.is_deterministic(node):
        if not node.inputs or any(v is not None for v in node.inputs):
            context.refuse(FOLD, node, "it is random or an unknown operator")
        return False
    return _keeps_precision(context, node)


def _keeps_precision(context: MatchContext, node: Node) -> bool:
    """Return whether folding keeps narrow weights narrow."""
    kinds = {context.element_type(v) for v in node.inputs if v is not None}
    if traits.of(node).widens_weights:
        context.refuse(FOLD, node, "it would turn quantized weights into floats")
        return False
    if node.op_type in ("Cast", "CastLike") and kinds & _NARROW:
        size = next((t.size for v in node.inputs[:1] if (t := context.constant(v)) is not None), 0)
        if size > 1:
            context.refuse(FOLD, node, "it would turn narrow integers into a wider type")
            return False
    return True


def compute(context: MatchContext, node: Node) -> list[Tensor | None] | None:
    """Return the outputs of a node with constant inputs, None for absent ones.

    None as a whole, with a refusal recorded, where limits forbid it.
    """
    options = context.options
    read = [t for v in node.inputs if (t := context.constant(v)) is not None]
    if sum(t.nbytes for t in read) > options.work_limit:
        context.refuse(FOLD, node, f"its inputs are larger than {options.work_limit >> 20} MiB")
        return None
    freed = _freed(context, node)
    most = freed + min(options.tensor_limit, max(options.growth_limit - context.growth, 0))
    dims = [context.facts.shape(v) for v in node.outputs if v is not None]
    expected = sum(int(np.prod(shape, dtype=object)) for shape in dims if shape is not None)
    if expected > max(most, 1024):  # at least one byte per element
        _refuse_size(context, node, freed)
        return None
    arrays = [None if v is None else context.array(v) for v in node.inputs]
    if any(v is not None and a is None for v, a in zip(node.inputs, arrays, strict=True)):
        context.refuse(FOLD, node, "the data of a constant is not available")
        return None
    assert context.evaluate is not None
    results = context.evaluate(node, arrays, context.opset(node), max(most, 1024))
    if results is None:
        context.refuse(FOLD, node, "it cannot be computed here, or not within the limits")
        return None
    tensors = _tensors(context, node, results)
    if tensors is not None and sum(t.nbytes for t in tensors if t is not None) > max(most, 64):
        _refuse_size(context, node, freed)
        return None
    return tensors


def _refuse_size(context: MatchContext, node: Node, freed: int) -> None:
    allowed = (freed + context.options.tensor_limit) / 1024
    context.refuse(FOLD, node, f"the result would be larger than {allowed:,.0f} KiB, or the file grow too much")


def _freed(context: MatchContext, node: Node) -> int:
    """Return the bytes of constants that only this node uses."""
    freed = 0
    for value in {v for v in node.inputs if v is not None}:
        tensor = context.constant(value)
        if tensor is not None and all(user is node for user, _ in value.uses):
            freed += tensor.nbytes
    return freed


def _tensors(context: MatchContext, node: Node, found: list[NDArray[Any] | None]) -> list[Tensor | None] | None:
    tensors: list[Tensor | None] = []
    for value, array in zip(node.outputs, found, strict=False):
        if array is None:
            tensors.append(None)
            continue
        kind = context.element_type(value)
        try:
            if kind is not None and kind is not ElementType.STRING and array.dtype != kind.numpy_dtype:
                return None
            tensors.append(ArrayTensor(np.array(array, copy=True, order="C"), kind))
        except ValueError:
            return None
    return tensors if len(tensors) >= len(node.outputs) else None


def _apply_fold(context: MatchContext, node: Node, tensors: list[Tensor | None], rewriter: GraphRewriter) -> None:
    used = [t for v, t in zip(node.outputs, tensors, strict=False) if v is not None and v.uses and t is not None]
    context.growth += sum(t.nbytes for t in used) - _freed(context, node)
    rewriter.fold(node, tensors)


EXTRACT = Pass(
    "extract_constant_to_initializer", "Constant nodes to initializers",
    "Turns Constant nodes into initializers, except graph outputs.", _extract,
)  # fmt: skip
DUPLICATES = Pass(
    "eliminate_duplicate_initializer", "Equal initializers",
    "Keeps one of several equal initializers.", _duplicates,
)  # fmt: skip
CONSTANTS = Pass(
    FOLD, "Constant folding",
    "Computes nodes with constant inputs, except random ones, dequantization and results that make the file much "
    "larger.", _fold,
)  # fmt: skip
