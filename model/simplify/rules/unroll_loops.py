"""Loop unrolling: loops with a known trip count are simulated with constant values, then replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.analysis.node_constants import plain
from onnx_workbench.model.analysis.scoping import dependencies, run_order
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.simplify.context import MatchContext, is_returned_elsewhere
from onnx_workbench.model.simplify.passes import Match, Pass, describe

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_ITERATIONS = 256
_MOST_NODES = 2000  # most nodes that unrolling on request may leave
_MOST_BYTES = 1024  # bytes of a value tracked over iterations: counters and conditions, no data
_FOLLOWED = frozenset("biuf")  # kinds of numpy types

Known = dict[Value, "NDArray[Any]"]


@dataclass(slots=True)
class _Iteration:
    """One iteration: the known values, and the nodes that remain."""

    known: Known
    nodes: list[Node]


@dataclass(slots=True)
class _Trial:
    """A simulated loop: its iterations, and the loop-invariant nodes."""

    node: Node
    body: Graph
    iterations: list[_Iteration] = field(default_factory=list)
    invariant: dict[Node, None] = field(default_factory=dict)

    @property
    def carried(self) -> int:
        """Number of loop-carried values."""
        return len(self.body.inputs) - 2

    @property
    def stacked(self) -> list[tuple[Value, Value]]:
        """Return the used scan outputs, and the values they collect."""
        pairs = zip(self.node.outputs[self.carried :], self.body.outputs[1 + self.carried :], strict=False)
        return [(target, result) for target, result in pairs if target is not None and target.uses]

    def nodes_left(self) -> int:
        """Return the number of op nodes after unrolling, before further simplification."""
        each = sum(_count(n) for iteration in self.iterations for n in iteration.nodes if n not in self.invariant)
        once = sum(_count(n) for iteration in self.iterations[:1] for n in iteration.nodes if n in self.invariant)
        joins = len(self.iterations) + (len(self.iterations) > 1)
        return each + once + joins * len(self.stacked)


def _count(node: Node) -> int:
    inner = sum(_count(n) for body in node.bodies for n in body.nodes)
    return inner + (node.op_type != "Constant" or bool(node.domain))


def _loops(context: MatchContext, most: Callable[[_Trial], int]) -> Iterator[Match]:
    for node in context.nodes("Loop"):
        body = plain(node, "body")
        if not isinstance(body, Graph) or not _is_sound(node, body):
            continue
        trial = _tried(context, node, body)
        if trial is None or not _can_take_place(context, trial) or trial.nodes_left() > most(trial):
            continue
        count = len(trial.iterations)
        iterations = "0 iterations" if not count else "1 iteration" if count == 1 else f"{count} iterations"
        yield Match(f"{describe(node)} runs {iterations}", (node,), partial(_unroll, context, trial))


def _is_sound(node: Node, body: Graph) -> bool:
    carried = len(node.inputs) - 2
    return (
        carried >= 0
        and not body.quantization_annotations
        and len(body.inputs) == carried + 2
        and len(body.outputs) > carried
        and carried <= len(node.outputs) < len(body.outputs)
        and all(v is not None for v in node.inputs[2:])
    )


# -- trying ------------------------------------------------------------------------------------------------------


def _tried(context: MatchContext, node: Node, body: Graph) -> _Trial | None:
    """Simulate the loop on constant values; None where its end is unknown."""
    limit, go_on = (_start(context, v) for v in node.inputs[:2])
    if any(v is not None and a is None for v, a in zip(node.inputs[:2], (limit, go_on), strict=True)):
        return None
    trial = _Trial(node, body)
    most = None if limit is None else int(limit.reshape(-1)[0])
    if (go_on is not None and not go_on.reshape(-1)[0]) or (most is not None and most <= 0):
        return trial
    order = run_order(body)
    trial.invariant = _invariant(context, body, order)
    carried = [_start(context, v) for v in node.inputs[2:]]
    while len(trial.iterations) < _MOST_ITERATIONS:
        context.progress.check()
        known: Known = {body.inputs[0]: np.array(len(trial.iterations), np.int64), body.inputs[1]: np.array(True)}
        known.update({v: a for v, a in zip(body.inputs[2:], carried, strict=True) if a is not None})
        left = [n for n in order if not _computed(context, n, known)]
        trial.iterations.append(_Iteration(known, left))
        if len(trial.iterations) == most:
            return trial
        again = _small(context, body.outputs[0], known)
        if again is None:
            return None
        if not again.reshape(-1)[0]:
            # Without an initial condition, the specification ignores the body's; not all runtimes do.
            return trial if node.inputs[1] is not None else None
        carried = [_small(context, v, known) for v in body.outputs[1 : 1 + trial.carried]]
    return None


def _start(context: MatchContext, value: Value | None) -> NDArray[Any] | None:
    array = context.array(value)
    return array if array is not None and array.size and _is_followed(array) else None


def _is_followed(array: NDArray[Any]) -> bool:
    return array.nbytes <= _MOST_BYTES and array.dtype.kind in _FOLLOWED and array.dtype.isbuiltin == 1


def _small(context: MatchContext, value: Value | None, known: Mapping[Value, NDArray[Any]]) -> NDArray[Any] | None:
    """Return the value of a subgraph in this iteration, if known and small."""
    if value is None:
        return None
    return known[value] if value in known else _start(context, value)


def _computed(context: MatchContext, node: Node, known: Known) -> bool:
    """Compute a node from known values of this iteration; False when it must remain."""
    if context.evaluate is None or node.bodies or not node.inputs or not context.is_deterministic(node):
        return False
    if any(a.reference for a in node.attributes.values()):
        return False
    arrays = [_small(context, v, known) for v in node.inputs]
    if any(v is not None and a is None for v, a in zip(node.inputs, arrays, strict=True)):
        return False
    results = context.evaluate(node, arrays, context.opset(node), _MOST_BYTES)
    if results is None or len(results) < len(node.outputs) or not all(a is None or _is_followed(a) for a in results):
        return False
    pairs = zip(node.outputs, results, strict=False)
    known.update({v: np.array(a) for v, a in pairs if v is not None and a is not None})
    return True


def _invariant(context: MatchContext, body: Graph, order: Sequence[Node]) -> dict[Node, None]:
    """Return loop-invariant nodes: their inputs are outer values, unchanged carried values, or each other's outputs."""
    same = {a for a, b in zip(body.inputs[2:], body.outputs[1:], strict=False) if a is b}
    inside = set(body.inputs) - same
    found: dict[Node, None] = {}
    for node in order:
        outputs = [v for v in node.outputs if v is not None]
        used = [v for v in node.inputs if v is not None]
        varies = node.bodies or any(v in inside for v in used) or not (used or node.op_type == "Constant")
        if varies or not context.is_deterministic(node):
            inside.update(outputs)
        else:
            found[node] = None
    return found


def _can_take_place(context: MatchContext, trial: _Trial) -> bool:
    """Return whether the final values can replace the node's outputs."""
    node, body, carried = trial.node, trial.body, trial.carried
    if any(v is not None and context.is_protected(v) for v in node.outputs):
        return False
    if not trial.iterations:
        pairs = zip(node.outputs, node.inputs[2:], strict=False)
        plainly = all(t is None or not t.uses or context.can_replace(t, s) for t, s in pairs)
        return plainly and not trial.stacked
    last = trial.iterations[-1]
    seen: set[Value] = set()
    for target, result in zip(node.outputs[:carried], body.outputs[1:], strict=False):
        if target is not None and any(isinstance(user, Graph) for user, _ in target.uses):
            made_here = result.producer in last.nodes and not (
                trial.iterations[1:] and result.producer in trial.invariant
            )
            if not made_here or not target.is_output or result in seen:
                return False
        seen.add(result)
    return all(t.graph is node.graph and not is_returned_elsewhere(t) for t, _ in trial.stacked)


# -- doing -------------------------------------------------------------------------------------------------------


def _unroll(context: MatchContext, trial: _Trial, rewriter: GraphRewriter) -> None:
    node, body = trial.node, trial.body
    graph = node.graph
    assert graph is not None
    state: list[Value] = [v for v in node.inputs[2:] if v is not None]
    shared = rewriter.copy_constants(body, node)
    stacks: list[list[Value]] = [[] for _ in trial.stacked]
    copies: list[Node] = []
    for iteration in trial.iterations:
        given: dict[Value, Value | None] = {**shared, **dict(zip(body.inputs[2:], state, strict=True))}
        find = _copy_iteration(trial, iteration, given, copies, rewriter)
        shared.update({v: given[v] for n in trial.invariant for v in n.outputs if v is not None and v in given})
        state = [find(v) for v in body.outputs[1 : 1 + trial.carried]]
        for parts, (_, result) in zip(stacks, trial.stacked, strict=True):
            parts.append(find(result))
    for parts, (target, _) in zip(stacks, trial.stacked, strict=True):
        _stack(context, node, target, parts, rewriter)
    for output, source in zip(node.outputs[: trial.carried], state, strict=False):
        if output is not None and output.uses:
            rewriter.replace_value(output, source)
    if node.graph is not None:
        rewriter.remove(node)
    rewriter.collect(copies)


def _copy_iteration(
    trial: _Trial, iteration: _Iteration, given: dict[Value, Value | None], copies: list[Node], rewriter: GraphRewriter
) -> Callable[[Value], Value]:
    """Copy the nodes of one iteration before the loop; returns a lookup of the copies of subgraph values."""
    node = trial.node
    graph = node.graph
    assert graph is not None
    nodes = [n for n in iteration.nodes if not any(v in given for v in n.outputs if v is not None)]
    needed = [v for n in nodes for v in dependencies(n)]
    for value in (*needed, *trial.body.outputs[1:]):
        if value in iteration.known and value not in given:
            given[value] = rewriter.constant(graph, iteration.known[value], f"{value.name}_constant", node)
    cloner = rewriter.names.cloner(graph, given)
    copied = cloner.nodes(nodes)
    rewriter.insert(graph, copied, node)
    copies.extend(copied)
    given.update(cloner.values)

    def find(value: Value) -> Value:
        return given.get(value) or value

    return find


def _stack(context: MatchContext, node: Node, target: Value, parts: Sequence[Value], rewriter: GraphRewriter) -> None:
    """Stack the values of all iterations into one tensor, as for a scan output."""
    layers = []
    for part in parts:
        outputs = [target] if len(parts) == 1 else None
        axes: dict[str, Any] = {}
        inputs: list[Any] = [part]
        if context.opset(node) >= 13:
            inputs.append(np.array([0], np.int64))
        else:
            axes["axes"] = (0,)
        layers.append(rewriter.add_like(node, "Unsqueeze", inputs, axes, outputs=outputs))
    if len(layers) > 1:
        rewriter.add_like(node, "Concat", layers, {"axis": 0}, outputs=[target])


PASSES = (
    Pass(
        "eliminate_loop_with_const_trip_count",
        "Loop with a constant trip count",
        "Replaces a Loop by its iterations if that adds no nodes.",
        lambda context: _loops(context, lambda trial: _count(trial.node)),
    ),
    Pass(
        "unroll_loop_with_const_trip_count",
        "Loop unrolled",
        f"Replaces a Loop by its iterations, adding up to {_MOST_NODES} nodes.",
        lambda context: _loops(context, lambda _: _MOST_NODES),
        is_default=False,
        may_grow=True,
    ),
)
