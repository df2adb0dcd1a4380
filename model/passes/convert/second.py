"""The second way to another operator set: onnx's version converter, for a node that no adapter here can convert.

It gets that node alone, as a model of its own with the types of its inputs and with small constants, so that neither
weights nor anything else of the model goes through it. What it makes of the node takes its place.
"""

from __future__ import annotations

from typing import Any

from model.edits.functions import replace_by_body
from model.errors import ModelError
from model.graph import Function, Node, Value
from model.io.encode import write_type
from model.io.protobuf import DecodeError, ModelProto
from model.isolation import GIB, run_isolated
from model.passes.convert.bodies import call_message
from model.passes.convert.hands import Hands
from model.progress import Progress
from model.steps import SetField

_LARGEST = 1024  # bytes of a constant that comes along
_SECONDS = 30
_IR_VERSION = 10


def convert_by_onnx(hands: Hands, current: int, version: int, progress: Progress) -> list[Node]:
    """Replace a node by what onnx's converter makes of it; the new nodes, of the other version.

    ModelError where it refuses, crashes, takes too long, or leaves the node as it is: it then only has no adapter.
    """
    if hands.node.bodies:
        raise ModelError("it leaves bodies as they are")
    given = _model(hands, current)
    try:
        found = ModelProto.FromString(_converted(given.SerializeToString(), version, progress))
    except DecodeError as error:
        raise ModelError("what it gave cannot be read", str(error)) from None
    if list(found.graph.node) == list(given.graph.node):
        raise ModelError("it leaves the node as it is")
    function = _function(found, given)
    node = hands.node
    copies = replace_by_body(hands.edit, hands.graph, node, function)
    heir = next((copy for copy in copies if copy.op_type == node.op_type), None)
    if heir is not None:
        for field in ("name", "doc_string", "metadata"):
            hands.edit.do(SetField(heir, field, getattr(node, field)))
    hands.report.changed(f"{node.op_type} was converted by onnx's version converter", heir or hands.graph)
    return copies


def _converted(given: bytes, version: int, progress: Progress) -> bytes:
    return run_isolated(
        "model.passes.convert.child:run",
        b"%d\n%s" % (version, given),
        what="it",
        memory=2 * GIB,
        seconds=_SECONDS,
        progress=progress,
    )


def _model(hands: Hands, current: int) -> Any:
    """The node as a model: its inputs are i0, i1 and so on, its outputs o0."""
    from onnx import numpy_helper

    model = ModelProto(ir_version=_IR_VERSION)
    model.opset_import.add(domain="", version=current)
    model.graph.name = "node"
    model.graph.node.append(call_message(hands))
    for index, value in enumerate(hands.node.inputs):
        constant = hands.constant_or_none(index) if value is not None else None
        if constant is not None and constant.nbytes <= _LARGEST:
            model.graph.initializer.append(numpy_helper.from_array(constant, f"i{index}"))
        elif value is not None:
            _declare(model.graph.input.add(name=f"i{index}"), hands, value)
    for index, value in enumerate(hands.node.outputs):
        if value is not None:
            _declare(model.graph.output.add(name=f"o{index}"), hands, value)
    return model


def _declare(declaration: Any, hands: Hands, value: Value) -> None:
    kind = hands.conversion.type_of(value)
    if kind is not None:
        write_type(declaration.type, kind)


def _function(found: Any, given: Any) -> Function:
    """What came out as a function of all inputs the node has; constants that are new are nodes in it."""
    from model.io.read import load

    (node,) = given.graph.node
    made = ModelProto(ir_version=_IR_VERSION, graph={"name": "empty"})
    function = made.functions.add(name="converted", domain="converted")
    function.opset_import.extend(found.opset_import)
    function.input.extend(name or f"none{index}" for index, name in enumerate(node.input))
    function.output.extend(name or f"left{index}" for index, name in enumerate(node.output))
    for tensor in found.graph.initializer:
        if tensor.name not in function.input:
            constant = function.node.add(op_type="Constant", output=[tensor.name])
            constant.attribute.add(name="value", type="TENSOR").t.CopyFrom(tensor)
    function.node.extend(found.graph.node)
    missing = {o.name for o in given.graph.output} - {name for n in function.node for name in n.output}
    if missing:
        raise ModelError("it lost an output")
    (read,) = load(made.SerializeToString()).functions
    return read
