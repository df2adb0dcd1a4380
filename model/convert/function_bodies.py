"""Expand operators that an older opset lacks into the function bodies of their specification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_workbench.model.convert.node_editor import NodeEditor
from onnx_workbench.model.edits.functions import replace_by_body
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.graph import Function, Node
from onnx_workbench.model.ir.types import ElementType, TensorType

if TYPE_CHECKING:
    from onnx import FunctionProto, NodeProto, TypeProto

_SIMPLE = {
    AttributeKind.FLOAT, AttributeKind.INT, AttributeKind.STRING, AttributeKind.FLOATS, AttributeKind.INTS,
    AttributeKind.STRINGS,
}  # fmt: skip

#: Operators whose bodies depend on the element types of inputs, not on their ranks.
_BY_ELEMENT_TYPE = frozenset({"CastLike"})


def write_out(editor: NodeEditor, version: int) -> list[tuple[Node, int]]:
    """Expand a node; returns each new node with the opset version it is written in.

    ModelError for an operator without a function body.
    """
    function = _body(editor, version)
    node, graph = editor.node, editor.graph
    if function is None:
        raise editor.refuse("no older operators compute the same")
    copies = replace_by_body(editor.edit, graph, node, function)
    known = function.opset_imports.get("", version)
    editor.report.changed(f"{node.op_type} is decomposed into older operators", copies[0] if copies else graph)
    return [(copy, known) for copy in copies]


def _body(editor: NodeEditor, version: int) -> Function | None:
    """Return the function body of the operator for an opset, given its attributes and input types."""
    from onnx import FunctionProto, defs

    schema: Any = defs.get_schema(editor.node.op_type, version, "")  # its type hints omit the functions
    if schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        types = [_type(editor, index).SerializeToString() for index in range(len(editor.node.inputs))]
        since = max(versions, default=schema.since_version)
        content = schema.get_context_dependent_function_with_opset_version(
            since, call_message(editor).SerializeToString(), types
        )
    elif schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= version]
        content = schema.get_function_with_opset_version(max(versions, default=schema.since_version))
    else:
        content = b""
    if not content:
        return None
    proto = FunctionProto()
    proto.ParseFromString(content)
    return _read(proto, schema)


def _read(proto: FunctionProto, schema: Any) -> Function:
    """Convert a FunctionProto to a Function with the operator's attribute defaults."""
    from onnx import GraphProto, ModelProto

    from onnx_workbench.model.io.reader.read import load

    with_default = {default.name for default in proto.attribute_proto}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.name and name not in with_default:
            proto.attribute_proto.append(attribute.default_value)
    holder = ModelProto(ir_version=10, graph=GraphProto(name="empty"), functions=[proto])
    (function,) = load(holder.SerializeToString()).functions
    return function


def _type(editor: NodeEditor, index: int) -> TypeProto:
    from onnx import TypeProto, helper

    if not editor.has(index):
        return TypeProto()
    kind = editor.type_of(index)
    if not isinstance(kind, TensorType) or not isinstance(kind.element_type, ElementType):
        raise editor.refuse(f"its decomposition depends on the type of input {index}, which is not known")
    if kind.shape is None:
        if editor.node.op_type not in _BY_ELEMENT_TYPE:
            raise editor.refuse(f"its decomposition depends on the rank of input {index}, which is not known")
        return helper.make_tensor_type_proto(int(kind.element_type), None)
    shape = [d if isinstance(d, int) else None for d in kind.shape.dims]
    return helper.make_tensor_type_proto(int(kind.element_type), shape)


def call_message(editor: NodeEditor) -> NodeProto:
    """Encode the node as NodeProto with inputs i0, i1 …, and outputs o0 …; ModelError for tensors as attributes."""
    from onnx import helper

    node = editor.node
    proto: NodeProto = helper.make_node(
        node.op_type,
        [f"i{k}" if v is not None else "" for k, v in enumerate(node.inputs)],
        [f"o{k}" if v is not None else "" for k, v in enumerate(node.outputs)],
    )
    for name in node.attributes:
        value = editor.attribute(name)
        kind = node.attributes[name].kind
        if kind not in _SIMPLE:
            raise editor.refuse(f"its attribute {name} holds a {kind.name.lower()}")
        proto.attribute.append(helper.make_attribute(name, value, attr_type=int(kind)))
    return proto
