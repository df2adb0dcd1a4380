"""Keep the inputs and outputs of subgraphs and of their nodes (If, Loop, Scan) in step, as the specification ties
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from onnx_workbench.model.analysis.scoping import names_taken, unique_name
from onnx_workbench.model.edits.nodes import set_output_count
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetAttribute, SetGraphInputs, SetGraphOutputs, SetInputs, SetOutputs
from onnx_workbench.model.ir.graph import Graph, Node, Value

_Thing = TypeVar("_Thing")


@dataclass(frozen=True, slots=True)
class _Tie:
    """Correspondence between inputs and outputs of a node and those of its subgraph."""

    output: int = 0  # first input of the subgraph that is tied to an input of the node
    carried: int = 0  # loop-carried values: each iteration passes them to the next; the first inputs and outputs
    input: int = 0  # first carried output of the subgraph
    fed: int = 0  # input of the node that is tied to this one


def _tie(node: Node) -> _Tie | None:
    """Return the correspondence; None for unknown operators, and where a relevant attribute is missing."""
    if node.domain:
        return None
    match node.op_type:
        case "If" | "SequenceMap":
            return _Tie()
        case "Loop":
            return _Tie(output=1, carried=max(len(node.inputs) - 2, 0), input=2, fed=2)
        case "Scan":
            count = node.attributes.get("num_scan_inputs")
            if count is None or not isinstance(count.value, int):
                return None
            fed = 1 if node.graph is not None and node.graph.opset_imports.get("", 9) < 9 else 0
            return _Tie(carried=max(len(node.inputs) - fed - count.value, 0), fed=fed)
    return None


def add_body_inputs(edit: Transaction, body: Graph, node: Node, values: Sequence[Value]) -> None:
    """Add inputs to a subgraph; its node gets one unconnected input for each.

    In a Loop they are loop-carried: passed on unchanged until the subgraph returns something else for them.
    """
    tie = _tie(node)
    before = len(body.inputs) - tie.input if tie is not None else 0
    edit.do(SetGraphInputs(body, (*body.inputs, *values)))
    if tie is None or node.op_type == "If" or before != len(node.inputs) - tie.fed:
        return
    if node.op_type == "Loop" and len(body.outputs) - tie.output == len(node.outputs) >= tie.carried:
        _return_carried(edit, body, node, tie, values)
    edit.do(SetInputs(node, (*node.inputs, *[None] * len(values))))
    scans = node.attributes.get("num_scan_inputs")
    if node.op_type == "Scan" and scans is not None and isinstance(scans.value, int):
        _lengthen(edit, node, ("scan_input_axes", "scan_input_directions"), len(values))
        edit.do(SetAttribute(node, scans.name, replace(scans, value=scans.value + len(values), source=None)))


def _return_carried(edit: Transaction, body: Graph, node: Node, tie: _Tie, values: Sequence[Value]) -> None:
    """Return carried values from a subgraph, and add the matching outputs to its node."""
    index, count = tie.output + tie.carried, len(node.outputs)
    edit.do(SetGraphOutputs(body, (*body.outputs[:index], *values, *body.outputs[index:])))
    set_output_count(edit, node, count + len(values))
    outputs, given = node.outputs, tie.carried
    if given < count:
        edit.do(SetOutputs(node, (*outputs[:given], *outputs[count:], *outputs[given:count])))


def lacks_inputs_alone(node: Node, body: Graph) -> bool:
    """Return whether a Loop node only lacks inputs in its subgraph, which passes on all it takes and has no scan
    outputs.

    With scan outputs it would be ambiguous which outputs those are.
    """
    tie = _tie(node)
    if tie is None or node.op_type != "Loop":
        return False
    taken = len(body.inputs) - tie.input
    return 0 <= taken < tie.carried and len(body.outputs) - tie.output == len(node.outputs) == taken


def take_all(edit: Transaction, body: Graph, node: Node) -> None:
    """Add the missing inputs to the subgraph of a Loop that `lacks_inputs_alone`, and pass them on unchanged."""
    names, taken = names_taken(body), []
    for given in node.inputs[len(body.inputs) :]:
        name = unique_name(given.name if given is not None else "input", names)
        names.add(name)
        taken.append(Value(name, given.type if given is not None else None))
    edit.do(SetGraphInputs(body, (*body.inputs, *taken)))
    return_all_carried(edit, body, node)


def return_all_carried(edit: Transaction, body: Graph, node: Node) -> None:
    """Make a subgraph that returns fewer carried values than it takes pass the others on unchanged."""
    tie = _tie(node)
    assert tie is not None
    handed = len(body.outputs) - tie.output
    lacking = body.inputs[tie.input + handed : tie.input + tie.carried]
    edit.do(SetGraphOutputs(body, (*body.outputs, *lacking)))
    set_output_count(edit, node, tie.carried)


def carried_input(node: Node, body: Graph, index: int) -> Value | None:
    """Return the subgraph input that gets an input of its node in the first iteration, and a carried value
    afterwards.
    """
    tie = _tie(node)
    position = index - tie.fed if tie is not None else -1
    if tie is None or not 0 <= position < tie.carried or tie.input + position >= len(body.inputs):
        return None
    return body.inputs[tie.input + position]


def add_body_outputs(edit: Transaction, body: Graph, node: Node, values: Collection[Value]) -> None:
    """Add outputs to a subgraph; its node gets them too, an If once both branches have them."""
    tie = _tie(node)
    before = _given_by(node, body, tie)
    edit.do(SetGraphOutputs(body, (*body.outputs, *values)))
    now = _given_by(node, body, tie)
    if now > before == len(node.outputs):
        set_output_count(edit, node, now)
        _lengthen(edit, node, ("scan_output_axes", "scan_output_directions"), now - before)


def least_outputs(node: Node) -> int:
    """Return the minimum number of outputs of a subgraph: the condition and the carried values."""
    tie = _tie(node)
    return 0 if tie is None else tie.output + tie.carried


def _given_by(node: Node, body: Graph, tie: _Tie | None) -> int:
    """Return the number of outputs of a node that its subgraphs determine."""
    return 0 if tie is None else min(len(branch.outputs) for branch in _together(node, body)) - tie.output


def _together(node: Node, body: Graph) -> tuple[Graph, ...]:
    return node.bodies if node.op_type == "If" else (body,)


def remove_body_outputs(edit: Transaction, body: Graph, node: Node, places: Collection[int]) -> None:
    """Remove outputs of a subgraph, its node and the other branch of an If; for a carried one also the input.

    ModelError while something uses them.
    """
    tie = _tie(node)
    if tie is None:
        edit.do(SetGraphOutputs(body, _without(body.outputs, places)))
        return
    if min(places) < tie.output:
        detail = f"The body of {node.title} must return it."
        raise ModelError(f"{body.outputs[0].name} is the loop condition", detail, body)
    for branch in _together(node, body):
        edit.do(SetGraphOutputs(branch, _without(branch.outputs, places)))
    gone = {index - tie.output for index in places}
    _remove_carried(edit, body, node, tie, {index for index in gone if index < tie.carried})
    _shorten(edit, node, ("scan_output_axes", "scan_output_directions"), {index - tie.carried for index in gone})
    _refuse_used(node, [value for index, value in enumerate(node.outputs) if index in gone], "an output of the body")
    edit.do(SetOutputs(node, _without(node.outputs, gone)))


def _remove_carried(edit: Transaction, body: Graph, node: Node, tie: _Tie, carried: Collection[int]) -> None:
    """Remove the inputs of values that are no longer loop-carried."""
    gone = {index + tie.input for index in carried}
    _refuse_used(
        node, [value for index, value in enumerate(body.inputs) if index in gone], "an output of the last iteration"
    )
    if carried:
        edit.do(SetGraphInputs(body, _without(body.inputs, gone)))
        edit.do(SetInputs(node, _without(node.inputs, {index + tie.fed for index in carried})))


def _refuse_used(node: Node, leaving: Sequence[Value | None], what: str) -> None:
    value = next((value for value in leaving if value is not None and value.uses), None)
    if value is not None:
        raise ModelError(f"{value.name} is used", f"It is {what} in {node.title}; disconnect it first.", value)


def remove_body_inputs(edit: Transaction, body: Graph, node: Node, places: Collection[int]) -> None:
    """Remove inputs of a subgraph and of its node; for a carried one also the output."""
    tie = _tie(node)
    if tie is None or node.op_type == "If":
        edit.do(SetGraphInputs(body, _without(body.inputs, places)))
        return
    if min(places) < tie.input:
        detail = f"The body of {node.title} must take it."
        raise ModelError(f"{body.inputs[min(places)].name} is passed to every iteration", detail, body)
    carried = {index for index in places if index - tie.input < tie.carried}
    others = {body.inputs[index] for index in places if index not in carried}
    if carried:
        remove_body_outputs(edit, body, node, {index - tie.input + tie.output for index in carried})
    _remove_taken(edit, body, node, {index for index, value in enumerate(body.inputs) if value in others})


def _remove_taken(edit: Transaction, body: Graph, node: Node, places: Collection[int]) -> None:
    """Remove inputs of a subgraph that are sliced per iteration (Scan), and those of the node."""
    edit.do(SetGraphInputs(body, _without(body.inputs, places)))
    tie = _tie(node)
    taken = {index + tie.fed for index in places} if tie and node.op_type != "Loop" else set()
    taken &= set(range(len(node.inputs)))
    if tie is None or not taken:
        return
    edit.do(SetInputs(node, _without(node.inputs, taken)))
    scans = node.attributes.get("num_scan_inputs")
    if scans is not None and isinstance(scans.value, int):
        _shorten(edit, node, ("scan_input_axes", "scan_input_directions"), {index - tie.carried for index in places})
        edit.do(SetAttribute(node, scans.name, replace(scans, value=scans.value - len(taken), source=None)))


def _shorten(edit: Transaction, node: Node, names: Iterable[str], places: Collection[int]) -> None:
    """Remove elements from attributes with one element per such input or output."""
    for attribute in filter(None, map(node.attributes.get, names)):
        if isinstance(attribute.value, tuple):
            value: Any = _without(attribute.value, places)
            edit.do(SetAttribute(node, attribute.name, replace(attribute, value=value, source=None)))


def _lengthen(edit: Transaction, node: Node, names: Iterable[str], count: int) -> None:
    """Append default elements to attributes with one element per such output."""
    for attribute in filter(None, map(node.attributes.get, names)):
        if isinstance(attribute.value, tuple):
            value: Any = (*attribute.value, *[0] * count)
            edit.do(SetAttribute(node, attribute.name, replace(attribute, value=value, source=None)))


def _without(things: Sequence[_Thing], places: Collection[int]) -> tuple[_Thing, ...]:
    return tuple(thing for index, thing in enumerate(things) if index not in places)
