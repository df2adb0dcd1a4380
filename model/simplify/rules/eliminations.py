"""Remove identity nodes, and nodes whose results are unused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.node_constants import ints, number, real, text
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.inference.operators.contents import ints_end
from onnx_workbench.model.inference.operators.cutting import slice_bounds
from onnx_workbench.model.inference.operators.reshaping import axes_of
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass, describe, replacement, setting

#: Strictly increasing functions, which ArgMax commutes with.
_RISING = traits.names(lambda t: t.is_increasing)


def bypass(context: MatchContext, node: Node, source: Value | None, why: str) -> Iterator[Match]:
    """Return the match that replaces the node's first output by `source`; none where that is impossible."""
    target = node.outputs[0] if node.outputs else None
    if target is None or source is None or not context.unused_from(node, 1) or not context.can_replace(target, source):
        return
    yield Match(f"{describe(node)}: {why}", (node,), lambda rewriter: rewriter.replace_value(target, source), (target,))


def _deadend(context: MatchContext) -> Iterator[Match]:
    for node in reversed(list(context.all_nodes())):
        if node.graph is None or node.device_configurations or not context.is_chosen(node) or not node.outputs:
            continue
        if not any(v is not None and (v.uses or context.is_protected(v)) for v in node.outputs):
            yield Match(f"{describe(node)}: its outputs are unused", (node,), partial(GraphRewriter.remove, node=node))


def _unused_initializer(context: MatchContext) -> Iterator[Match]:
    if context.options.nodes is not None:
        return
    for graph in context.graphs:
        if not context.is_alive(graph):
            continue
        inputs = set(graph.inputs)
        for value in list(graph.initializers):
            if not value.uses and value not in inputs and not context.is_protected(value):
                yield Match(f"{value.name}: unused", (), partial(GraphRewriter.drop_constant, value=value), (value,))


def _identity(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Identity"):
        source = node.inputs[0] if node.inputs else None
        yield from bypass(context, node, source, "returns its input")


def _nop_cast(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Cast", "CastLike"):
        source = node.inputs[0] if node.inputs else None
        kind = context.element_type(source)
        if node.op_type == "Cast":
            wanted: Any = number(node, "to")
        else:
            wanted = context.element_type(node.inputs[1] if len(node.inputs) > 1 else None)
        if kind is not None and kind == wanted:
            yield from bypass(context, node, source, f"its input is {kind.text} already")


def _nop_dropout(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Dropout"):
        if context.is_inference_dropout(node):
            yield from bypass(context, node, node.inputs[0], "has no effect outside training")
        elif context.opset(node) >= 12:
            context.refuse("eliminate_nop_dropout", node, "it is in training mode, or may be")


def _monotone_argmax(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("ArgMax"):
        inner = context.producer(node.inputs[0], *_RISING)
        if inner is None or inner.inputs[0] is None:
            continue
        if inner.op_type != "Exp" and not _softmax_axis_is(context, inner, number(node, "axis")):
            continue
        source = inner.inputs[0]
        yield Match(
            f"{describe(node)}: {inner.op_type} does not change which element is the largest",
            (inner, node),
            setting(node, source, *node.inputs[1:]),
        )


def _softmax_axis_is(context: MatchContext, node: Node, axis: int) -> bool:
    rank = context.facts.rank(node.inputs[0])
    own = number(node, "axis")
    if not rank:
        return rank is None and context.opset(node) >= 13 and own == axis
    if context.opset(node) < 13 and own % rank != rank - 1:
        return False  # it normalises over several axes
    return own % rank == axis % rank


def pads_of(context: MatchContext, node: Node) -> tuple[int, ...] | None:
    """Return the pads of a Pad without axes, begins then ends; None when unknown."""
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        return None
    if context.opset(node) < 11:
        return ints(node, "pads") or ints(node, "paddings")
    return context.call(node).numbers(1)


def _nop_pad(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Pad"):
        pads = pads_of(context, node)
        if pads is not None and not any(pads):
            yield from bypass(context, node, node.inputs[0], "has zero pads")


def _nop_transpose(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Transpose"):
        order = ints(node, "perm")
        rank = context.facts.rank(node.inputs[0])
        if order is not None and list(order) == list(range(len(order))):
            yield from bypass(context, node, node.inputs[0], "keeps the order of axes")
        elif order is None and rank is not None and rank <= 1:
            yield from bypass(context, node, node.inputs[0], "there is one axis")


def _same_dims(context: MatchContext, node: Node, why: str) -> Iterator[Match]:
    """Bypass a rearranging node whose output has the dimensions of its input."""
    before = context.facts.dims(node.inputs[0])
    after = context.facts.dims(node.outputs[0])
    if before is not None and before == after:
        yield from bypass(context, node, node.inputs[0], why)


def _nop_flatten(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Flatten"):
        rank = context.facts.rank(node.inputs[0])
        if rank == 2 and number(node, "axis") in (1, -1):
            yield from bypass(context, node, node.inputs[0], "its input is a matrix already")


def _nop_reshape(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Reshape"):
        wanted = context.call(node).numbers(1) if context.opset(node) >= 5 else ints(node, "shape")
        rank = context.facts.rank(node.inputs[0])
        copies = wanted is not None and rank == len(wanted) and not number(node, "allowzero")
        if copies and wanted is not None and all(w == 0 for w in wanted[:-1]) and wanted[-1:] in ((0,), (-1,)):
            yield from bypass(context, node, node.inputs[0], "keeps the shape")
        else:
            yield from _same_dims(context, node, "keeps the shape")


def _nop_expand(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Expand", "Tile"):
        if node.op_type == "Tile" and context.opset(node) < 6:
            continue
        wanted = context.call(node).numbers(1)
        rank = context.facts.rank(node.inputs[0])
        if wanted is not None and rank is not None and len(wanted) <= rank and all(w == 1 for w in wanted):
            yield from bypass(context, node, node.inputs[0], "keeps the shape")
        elif node.op_type == "Expand":
            yield from _same_dims(context, node, "keeps the shape")


def _nop_concat(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Concat", "Sum", "Max", "Min", "Mean"):
        if len(node.inputs) == 1:
            yield from bypass(context, node, node.inputs[0], "it has one input")


def _nop_split(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Split"):
        if len(node.outputs) == 1:
            yield from bypass(context, node, node.inputs[0], "it has one part")


def _nop_slice(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Slice"):
        bounds = slice_bounds(context.call(node))
        dims = context.facts.dims(node.inputs[0])
        if bounds is not None and all(_is_whole(dims, *bound) for bound in bounds):
            yield from bypass(context, node, node.inputs[0], "selects everything")


def _is_whole(
    dims: tuple[symbolic.AnySize, ...] | None,
    axis: int,
    start: symbolic.AnySize,
    end: symbolic.AnySize,
    step: symbolic.AnySize,
) -> bool:
    if start != 0 or step != 1:
        return False
    if isinstance(end, int) and end >= (1 << 31) - 1:
        return True
    if dims is None or axis >= len(dims):
        return False
    shorter = symbolic.is_less(end, dims[axis])
    return shorter is False and (symbolic.least(end) or 0) >= 0


def _nop_with_unit(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes(*traits.names(lambda t: t.neutral is not None)):
        unit, places = traits.of(node).neutral or (0, ())
        if len(node.inputs) == 2:
            for index in places:
                other = node.inputs[1 - index]
                if (
                    other is not None
                    and _is_filled(context, node.inputs[index], unit)
                    and _keeps_shape(context, other, node.inputs[index])
                ):
                    yield from bypass(context, node, other, f"{_SAYS.get(node.op_type, node.op_type)} {unit}")
                    break


_SAYS = {
    "Add": "adds", "Sub": "subtracts", "Mul": "multiplies by", "Div": "divides by", "Pow": "raises to the power of",
    "Or": "or", "And": "and",
}  # fmt: skip


def _is_filled(context: MatchContext, value: Value | None, content: float) -> bool:
    tensor = context.constant(value)
    if tensor is None or tensor.size == 0 or tensor.element_type == ElementType.STRING:
        return False
    if tensor.size > 4096:  # checking the first few elements saves reading weights
        return False
    array = context.array(value)
    return array is not None and bool(np.all(array == content))


def _keeps_shape(context: MatchContext, value: Value, constant: Value | None) -> bool:
    """Return whether combining a value with a constant keeps the value's shape."""
    tensor = context.constant(constant)
    if tensor is None:
        return False
    if not tensor.shape:
        return True
    dims = context.facts.dims(value)
    if dims is None or len(dims) < len(tensor.shape):
        return False
    tail = dims[len(dims) - len(tensor.shape) :]
    return all(own in (1, theirs) for own, theirs in zip(tensor.shape, tail, strict=True))


_NEVER_NEGATIVE = traits.names(lambda t: t.is_never_negative)
_IDEMPOTENT = traits.names(lambda t: t.is_idempotent)


def _idempotent(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes(*_IDEMPOTENT):
        before = context.producer(node.inputs[0], node.op_type)
        if before is not None:
            yield from bypass(context, node, node.inputs[0], f"follows another {node.op_type}")
    for node in context.nodes("Relu"):
        if context.producer(node.inputs[0], *_NEVER_NEGATIVE) is not None:
            yield from bypass(context, node, node.inputs[0], "its input is never negative")


def _nop_reduce(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
        dims = context.facts.dims(node.inputs[0])
        axes = reduced_axes(context, node)
        if dims is None or axes is None or not number(node, "keepdims"):
            continue
        if all(-len(dims) <= a < len(dims) and dims[a] == 1 for a in axes):
            yield from bypass(context, node, node.inputs[0], "the axes it reduces have one element")


def reduced_axes(context: MatchContext, node: Node) -> tuple[int, ...] | None:
    """Return the axes of a Reduce operator; None when unknown."""
    rank = context.facts.rank(node.inputs[0])
    by_input = context.opset(node) >= (13 if node.op_type == "ReduceSum" else 18)
    has_axes = len(node.inputs) > 1 and node.inputs[1] is not None if by_input else "axes" in node.attributes
    axes = context.call(node).numbers(1) if by_input and has_axes else ints(node, "axes")
    if not has_axes or axes == ():
        if number(node, "noop_with_empty_axes"):
            return ()
        return None if rank is None else tuple(range(rank))
    return axes


def _nop_resize(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Upsample", "Resize"):
        index = 1 if node.op_type == "Upsample" or context.opset(node) < 11 else 2
        scales = context.array(node.inputs[index]) if len(node.inputs) > index else None
        if scales is not None and scales.size and bool(np.all(scales == 1)):
            mode = text(node, "coordinate_transformation_mode")
            if mode != "tf_crop_and_resize" and real(node, "cubic_coeff_a", -0.75) == -0.75:
                yield from bypass(context, node, node.inputs[0], "keeps the size")


def _shape_gather(context: MatchContext) -> Iterator[Match]:
    """Fuse Shape with Gather or Slice of adjacent entries, where Shape itself can do it (opset 15)."""
    for node in context.nodes("Slice", "Gather"):
        shape = context.producer(node.inputs[0], "Shape")
        if shape is None or context.opset(node) < 15:
            continue
        rank = context.facts.rank(shape.inputs[0])
        first = number(shape, "start")
        if rank is None or (first and first < 0) or ints_end(shape) is not None:
            continue
        span = _span(context, node, rank - first)
        if span is None:
            continue
        start, end = span[0] + first, span[1] + first
        yield Match(
            f"{describe(node)}: Shape can return entries {start} to {end - 1} itself",
            (shape, node),
            replacement(node, "Shape", [shape.inputs[0]], {"start": start, "end": end}),
        )


def _span(context: MatchContext, node: Node, length: int) -> tuple[int, int] | None:
    """Return which entries of a shape are taken, if they are adjacent and stay a vector."""
    if node.op_type == "Gather":
        content = context.facts.contents.get(node.inputs[1]) if node.inputs[1] is not None else None
        if content is None or content.ndim != 1 or not all(isinstance(v, int) for v in content):
            return None
        taken = [v % length for v in content.tolist() if -length <= v < length]
        if len(taken) != len(content) or not taken or taken != list(range(taken[0], taken[0] + len(taken))):
            return None
        return taken[0], taken[-1] + 1
    bounds = slice_bounds(context.call(node))
    if bounds is None or len(bounds) != 1 or bounds[0][3] != 1:
        return None
    _, start, end, _ = bounds[0]
    if not isinstance(start, int) or not isinstance(end, int):
        return None
    first, stop, _ = slice(start, end).indices(length)
    return (first, stop) if stop > first else None


def _where(context: MatchContext) -> Iterator[Match]:
    """Where(Not(c), a, b) is Where(c, b, a)."""
    for node in context.nodes("Where"):
        negation = context.producer(node.inputs[0], "Not")
        if negation is not None:
            yield Match(
                f"{describe(node)}: has a negated condition",
                (negation, node),
                setting(node, negation.inputs[0], node.inputs[2], node.inputs[1]),
            )


def _nop_squeeze_unsqueeze(context: MatchContext) -> Iterator[Match]:
    """Remove Unsqueeze and Squeeze pairs that cancel."""
    for node in context.nodes("Squeeze", "Unsqueeze"):
        opposite = "Unsqueeze" if node.op_type == "Squeeze" else "Squeeze"
        before = context.producer(node.inputs[0], opposite)
        if before is None:
            continue
        rank = context.facts.rank(before.inputs[0])
        ours, theirs = (
            axes_of(context.call(node)),
            axes_of(context.call(before)),
        )
        if rank is None or ours is None or theirs is None:
            continue
        wide = rank + len(theirs) if opposite == "Unsqueeze" else rank
        if sorted(a % wide for a in ours) == sorted(a % wide for a in theirs):
            yield from bypass(context, node, before.inputs[0], f"reverts {describe(before)}")


def _zero_state(context: MatchContext) -> Iterator[Match]:
    """Remove zero initial states of recurrent operators: they are the default."""
    for node in context.nodes("LSTM", "GRU", "RNN"):
        needless = [index for index in _STATES if index < len(node.inputs) and _is_zero(context, node.inputs[index])]
        if needless:
            kept = [None if index in needless else value for index, value in enumerate(node.inputs)]
            yield Match(f"{describe(node)} has zero initial states", (node,), setting(node, *kept))


_STATES = (5, 6)  # initial_h, initial_c
_LARGEST_STATE = 1 << 20  # elements


def _is_zero(context: MatchContext, value: Value | None) -> bool:
    filled = context.producer(value, "ConstantOfShape")
    if filled is None:
        tensor = context.constant(value)
    elif "value" in filled.attributes:
        content = filled.attributes["value"].value
        tensor = content if isinstance(content, Tensor) else None
    else:
        return True
    array = context.read(tensor) if tensor is not None and tensor.size <= _LARGEST_STATE else None
    return array is not None and not array.any()


DEADEND = Pass("eliminate_deadend", "Nodes without effect", "Removes nodes whose outputs are unused.", _deadend)
UNUSED_INITIALIZER = Pass(
    "eliminate_unused_initializer", "Unused initializers",
    "Removes unused initializers, except graph inputs.", _unused_initializer,
)  # fmt: skip

PASSES = (
    Pass("eliminate_identity", "Identity", "Removes Identity nodes.", _identity),
    Pass("eliminate_nop_dropout", "Dropout", "Removes Dropout that is not in training mode.", _nop_dropout),
    Pass("eliminate_nop_cast", "Casts to the same type", "Removes casts to the type a value has.", _nop_cast),
    Pass("eliminate_nop_pad", "No-op Pad", "Removes Pad with all pads zero.", _nop_pad),
    Pass("eliminate_nop_transpose", "Transposes in order", "Removes Transpose that keeps the order.", _nop_transpose),
    Pass("eliminate_nop_flatten", "Flatten of a matrix", "Removes Flatten of a matrix along axis 1.", _nop_flatten),
    Pass("eliminate_nop_reshape", "Reshapes to the same shape", "Also where sizes are symbols.", _nop_reshape),
    Pass("eliminate_nop_expand", "No-op Expand and Tile", "Removes those that keep the shape.", _nop_expand),
    Pass("eliminate_nop_concat", "Concat of one", "Also Sum, Max, Min and Mean of one input.", _nop_concat),
    Pass("eliminate_nop_split", "Split into one", "Removes Split with one part.", _nop_split),
    Pass("eliminate_nop_slice", "Full Slice", "Removes Slice that selects everything.", _nop_slice),
    Pass(
        "eliminate_nop_with_unit",
        "Add 0, multiply by 1",
        "Removes arithmetic that changes neither values nor shape.",
        _nop_with_unit,
    ),
    Pass("eliminate_nop_reduce", "Reductions of single elements", "Axes of size 1 with keepdims.", _nop_reduce),
    Pass("eliminate_nop_resize", "Resizing by 1", "Removes Resize and Upsample with all scales 1.", _nop_resize),
    Pass("eliminate_zero_state", "Zero initial states", "Removes initial states that are zero.", _zero_state),
    Pass(
        "eliminate_nop_monotone_argmax",
        "Softmax before ArgMax",
        "Moves ArgMax before Softmax, LogSoftmax and Exp. Results may differ where rounding makes elements equal.",
        _monotone_argmax,
    ),
    Pass(
        "eliminate_consecutive_idempotent_ops",
        "Repeated Relu, Abs, Floor …",
        "Removes an operator that follows itself and then changes nothing.",
        _idempotent,
    ),
    Pass(
        "eliminate_squeeze_unsqueeze",
        "Squeeze and Unsqueeze that cancel",
        "Removes pairs that add and remove the same axes.",
        _nop_squeeze_unsqueeze,
    ),
    Pass(
        "eliminate_shape_gather",
        "Parts of a shape",
        "Sets start and end of Shape (opset 15).",
        _shape_gather,
    ),
    Pass("rewrite_where", "Where of a negated condition", "Swaps the inputs instead.", _where),
)
