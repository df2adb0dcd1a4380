"""Fold shape computations whose sizes are known, fully or in part, to constants."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.node_constants import number
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.inference.facts import Dims
from onnx_workbench.model.inference.operators.reshaping import reshaped
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass, describe, setting

_END = (1 << 63) - 1


def _known_values(context: MatchContext) -> Iterator[Match]:
    """Fold size tensors whose contents follow from static dimensions; float computations are left to constant
    folding.
    """
    for node in list(context.all_nodes()):
        if node.graph is None or not context.may_change(node) or node.op_type == "Constant" or node.bodies:
            continue
        value = node.outputs[0] if len(node.outputs) == 1 else None
        contents = None if value is None else context.facts.contents.get(value)
        kind = context.element_type(value)
        if value is None or contents is None or kind is None or context.is_protected(value):
            continue
        flat = contents.reshape(-1).tolist()
        if not all(isinstance(c, (int, bool)) for c in flat) or not context.is_deterministic(node):
            continue
        is_real = kind.numpy_dtype.kind not in "iub"
        if is_real and all(v is None or context.constant(v) is not None for v in node.inputs):
            continue
        array = np.array(flat, kind.numpy_dtype).reshape(contents.shape)
        tensor = ArrayTensor(array)
        if context.can_hold(node, [tensor]):
            title = f"{describe(node)} is always {_shown(flat)}"
            yield Match(title, (node,), partial(GraphRewriter.fold, node=node, tensors=[tensor]), (value,))


def _shown(values: list[Any]) -> str:
    return str(values) if len(values) <= 8 else f"the same {len(values)} numbers"


def _symbolic_shapes(context: MatchContext) -> Iterator[Match]:
    """Make the shape of Reshape and Expand constant where all sizes but one are numbers or copied from the input."""
    for node in context.nodes("Reshape", "Expand"):
        if context.opset(node) < 5 or len(node.inputs) < 2 or node.inputs[1] is None:
            continue
        if context.constant(node.inputs[1]) is not None or node.inputs[1].producer is None:
            continue
        contents = context.facts.contents.get(node.inputs[1])
        dims = context.facts.dims(node.inputs[0])
        if contents is None or contents.ndim != 1:
            continue
        if node.op_type == "Reshape":
            wanted = reshape_entries(dims, contents.tolist(), allow_zero=bool(number(node, "allowzero")))
        else:
            wanted = _expand_entries(dims, contents.tolist())
        if wanted is not None:
            yield Match(
                f"{describe(node)}: its shape is always {list(wanted)}",
                (node,),
                setting(node, node.inputs[0], np.array(wanted, np.int64)),
                (node.inputs[1],),
            )


def reshape_entries(dims: Dims | None, wanted: list[AnySize], *, allow_zero: bool) -> tuple[int, ...] | None:
    """Return the sizes as a constant Reshape input: numbers, 0 where the input's is copied, at most one -1."""
    resolved = None if dims is None else reshaped(dims, wanted, allow_zero=allow_zero)
    if resolved is not None and 0 not in resolved and 0 not in wanted and not _may_copy_another(dims, wanted):
        # Where -1 is taken, another size that is no number cannot be inferred.
        entries = _entries(dims, list(resolved), allow_zero=allow_zero)
        if entries is None or not _moves_inferred(dims, wanted, entries):
            return entries
    return _entries(dims, wanted, allow_zero=allow_zero)


def _entries(dims: Dims | None, wanted: list[AnySize], *, allow_zero: bool) -> tuple[int, ...] | None:
    entries: list[int] = []
    for axis, size in enumerate(wanted):
        if isinstance(size, int):
            entries.append(size)
        elif not allow_zero and dims is not None and axis < len(dims) and size == dims[axis]:
            entries.append(0)
        elif symbolic.least(size) is None:
            return None  # it might be 0 or -1
        else:
            entries.append(-1)
    return tuple(entries) if entries.count(-1) <= 1 else None


def _moves_inferred(dims: Dims | None, wanted: list[AnySize], entries: tuple[int, ...]) -> bool:
    """Return whether -1 moved beside a copied size that may be 0, where nothing can be inferred."""
    if -1 not in wanted or -1 not in entries or entries.index(-1) == wanted.index(-1):
        return False
    return any(entry == 0 and not symbolic.least(size) for entry, size in zip(entries, dims or (), strict=False))


def _may_copy_another(dims: Dims | None, wanted: list[AnySize]) -> bool:
    """Return whether a 0 at run time could copy a non-zero size, so that the -1 would be inferred differently."""
    return any(
        not isinstance(size, int) and not symbolic.least(size) and not _vanishes_with(copied, size)
        for size, copied in zip(wanted, dims or (), strict=False)
    )


def _vanishes_with(copied: AnySize, size: AnySize) -> bool:
    """Return whether a size is a multiple of another, and therefore 0 where that is."""
    factor = symbolic.divide(copied, size)
    return factor is not None and symbolic.product((factor, size)) == copied


def _expand_entries(dims: Dims | None, wanted: list[AnySize]) -> tuple[int, ...] | None:
    if dims is None:
        return None
    entries: list[int] = []
    offset = len(dims) - len(wanted)
    for axis, size in enumerate(wanted):
        own = dims[axis + offset] if axis + offset >= 0 else None
        if isinstance(size, int):
            entries.append(size)
        elif size == own:
            entries.append(1)
        else:
            return None
    return tuple(entries)


def _slice_ends(context: MatchContext) -> Iterator[Match]:
    """Replace computed ends of Slices that extend to the end of an axis."""
    for node in context.nodes("Slice"):
        if context.opset(node) < 10 or len(node.inputs) < 3:
            continue
        ends = node.inputs[2]
        contents = None if ends is None else context.facts.contents.get(ends)
        dims = context.facts.dims(node.inputs[0])
        starts = context.call(node).numbers(1)
        axes = context.call(node).numbers(3) if len(node.inputs) > 3 else None
        steps = context.call(node).numbers(4) if len(node.inputs) > 4 else None
        if contents is None or dims is None or starts is None or context.constant(ends) is not None:
            continue
        if (
            any(s <= 0 for s in steps or ())
            or (len(node.inputs) > 3 and axes is None)
            or (len(node.inputs) > 4 and steps is None)
        ):
            continue
        flat = contents.reshape(-1).tolist()
        places = axes if axes is not None else tuple(range(len(flat)))
        wanted = [
            e if isinstance(e, int) else _END if -len(dims) <= a < len(dims) and e == dims[a] else None
            for a, e in zip(places, flat, strict=False)
        ]
        known = [e for e in wanted if e is not None]
        if len(known) == len(wanted) and context.element_type(ends) is ElementType.INT64:
            inputs = (*node.inputs[:2], np.array(known, np.int64), *node.inputs[3:])
            yield Match(f"{describe(node)}: slices to the end", (node,), setting(node, *inputs))


def is_reshape_like(
    context: MatchContext, node: Node, source: Value | None, target: Value | None
) -> tuple[int, ...] | None:
    """Return the shape of a Reshape from `source` to `target`, where both shapes are known well enough."""
    before, after = context.facts.dims(source), context.facts.dims(target)
    if before is None or after is None or context.opset(node) < 5:
        return None
    entries = reshape_entries(before, list(after), allow_zero=False)
    if entries is None or any(isinstance(d, int) and d == 0 for d in (*before, *after)):
        return None
    return entries if reshaped(before, list(entries), allow_zero=False) == after else None


KNOWN_VALUES = Pass(
    "fold_shape_values", "Known sizes",
    "Computes values that depend on known dimensions only.", _known_values,
)  # fmt: skip
SYMBOLIC_SHAPES = Pass(
    "fold_symbolic_shapes", "Shapes with one unknown size",
    "Makes shapes of Reshape and Expand constant, with 0 and -1 for open dimensions.", _symbolic_shapes,
)  # fmt: skip
SLICE_ENDS = Pass(
    "fold_slice_ends", "Slices to the end", "Makes the end of Slice constant if it is the end of an axis.",
    _slice_ends,
)  # fmt: skip
