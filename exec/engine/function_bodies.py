"""Function bodies, as snapshots, of operators that have no kernel but a function body in their specification.

The bodies come from the onnx package, not from a model. Context-dependent ones are built for the types of the inputs,
which are arrays in memory, so that onnx's C++ code gets no data from a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.exec.engine.snapshot import (
    ABSENT,
    AttributeSnapshot,
    GraphSnapshot,
    NodeSnapshot,
    TensorReference,
)
from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.values.arrays import RuntimeValue, SparseArray
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.types import ElementType

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto

    from onnx_workbench.exec.engine.operations import Library, Operation


def has_body(op_type: str, opset: int, domain: str) -> bool:
    """Return whether the operator's specification at an opset has a function body."""
    schema = _schema(op_type, opset, domain)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def _schema(op_type: str, opset: int, domain: str) -> Any:
    """Return the OpSchema, or None. Typed Any, as its type hints lack the functions used here."""
    import onnx.defs

    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a name that is not UTF-8, a version beyond 32 bits
        return None


def expand(
    library: Library, node: NodeSnapshot, operation: Operation, inputs: Sequence[RuntimeValue]
) -> tuple[GraphSnapshot, dict[str, int], dict[str, AttributeSnapshot]]:
    """Return the body of an operator for inputs of these types: its graph, opset imports, and attributes by name."""
    schema = _schema(node.op_type, operation.opset, node.domain)
    assert schema is not None
    proto = _function(schema, library, node, operation, inputs)
    environment = {a.name: a for a in operation.given}
    reader = _Reader(library)
    for default in proto.attribute_proto:
        environment.setdefault(default.name, reader.attribute(default))
    for name, attribute in schema.attributes.items():
        if attribute.default_value is not None and attribute.default_value.name:
            environment.setdefault(name, reader.attribute(attribute.default_value))
    imports = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in proto.opset_import}
    imports.setdefault(node.domain, operation.opset)
    graph = reader.graph(proto.name, list(proto.input), list(proto.output), proto.node, ())
    return graph, imports, environment


def _function(
    schema: Any, library: Library, node: NodeSnapshot, operation: Operation, inputs: Sequence[RuntimeValue]
) -> FunctionProto:
    import onnx

    result = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= operation.opset]
        types = [_type_proto(value).SerializeToString() for value in inputs]
        call = _node_proto(library, node, operation).SerializeToString()
        version = max(versions, default=schema.since_version)
        content = schema.get_context_dependent_function_with_opset_version(version, call, types)
        if not content:
            msg = f"the specification of {node.op_type} gives no function body for these inputs; expected other types"
            raise KernelError(msg)
    else:
        versions = [v for v in schema.function_opset_versions if v <= operation.opset]
        content = schema.get_function_with_opset_version(max(versions, default=schema.since_version))
    result.ParseFromString(content)
    return result


def _node_proto(library: Library, node: NodeSnapshot, operation: Operation) -> NodeProto:
    from onnx import helper

    proto = helper.make_node(
        node.op_type,
        [f"i{k}" if v != ABSENT else "" for k, v in enumerate(node.inputs)],
        [f"o{k}" if v != ABSENT else "" for k, v in enumerate(node.outputs)],
        domain=node.domain,
    )
    for attribute in operation.given:
        if attribute.value is not None and attribute.kind not in (AttributeKind.GRAPH, AttributeKind.GRAPHS):
            proto.attribute.append(_attribute_proto(library, attribute))
    return proto


def _attribute_proto(library: Library, attribute: AttributeSnapshot) -> AttributeProto:
    from onnx import AttributeProto, helper, numpy_helper

    value = attribute.value
    if isinstance(value, TensorReference):
        value = numpy_helper.from_array(library.constant(value.number))
    elif isinstance(value, tuple) and not value:
        return AttributeProto(name=attribute.name, type=AttributeProto.AttributeType.Name(attribute.kind))
    return helper.make_attribute(attribute.name, value)


def _type_proto(value: RuntimeValue) -> TypeProto:
    from onnx import TypeProto, helper

    if isinstance(value, np.ndarray):
        return helper.make_tensor_type_proto(ElementType.from_numpy(value.dtype), value.shape)
    if isinstance(value, SparseArray):
        return helper.make_sparse_tensor_type_proto(ElementType.from_numpy(value.values.dtype), value.shape)
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_proto(value[0]) if value else TypeProto())
    return TypeProto()


class _Reader:
    """Converter of messages of the onnx package to snapshots, with numbers that no model uses."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def graph(
        self, name: str, inputs: list[str], outputs: list[str], nodes: Sequence[NodeProto], initializers: Any
    ) -> GraphSnapshot:
        """Return a function body as a snapshot."""
        scope: dict[str, int] = {}
        return self._graph(name, inputs, outputs, nodes, initializers, scope)

    def _graph(
        self,
        name: str,
        inputs: list[str],
        outputs: list[str],
        nodes: Sequence[NodeProto],
        initializers: Any,
        scope: dict[str, int],
    ) -> GraphSnapshot:
        def number(value: str) -> int:
            if not value:
                return ABSENT
            return scope.setdefault(value, self._library.local_number())

        from onnx import numpy_helper

        formal = tuple(number(v) for v in inputs)
        constants = tuple(
            (number(t.name), self._library.add_constant(numpy_helper.to_array(t)).number) for t in initializers
        )
        snapshots = tuple(
            NodeSnapshot(
                self._library.local_number(),
                self._library.local_number(),
                0,
                node.op_type,
                "" if node.domain == "ai.onnx" else node.domain,
                node.overload,
                node.name,
                tuple(number(v) for v in node.input),
                tuple(number(v) for v in node.output),
                tuple(self.attribute(a, scope) for a in node.attribute),
            )
            for node in nodes
        )
        results = tuple(number(v) for v in outputs)
        untyped = (None,) * len(formal), (None,) * len(results)
        uid = self._library.local_number()
        return GraphSnapshot(uid, uid, name, formal, results, *untyped, constants, snapshots)

    def attribute(self, proto: AttributeProto, scope: dict[str, int] | None = None) -> AttributeSnapshot:
        """Return an attribute of a node in a body; `scope` are the names that graphs in it can refer to."""
        from onnx import AttributeProto as Kinds
        from onnx import helper, numpy_helper

        kind = AttributeKind(proto.type)
        if proto.ref_attr_name:
            return AttributeSnapshot(proto.name, kind, None, proto.ref_attr_name)
        value: Any
        match proto.type:
            case Kinds.GRAPH:
                value = self._body(proto.g, scope or {})
            case Kinds.TENSOR:
                value = self._library.add_constant(_strings(numpy_helper.to_array(proto.t)))
            case Kinds.STRING:
                value = proto.s.decode("utf-8", "surrogateescape")
            case Kinds.STRINGS:
                value = tuple(s.decode("utf-8", "surrogateescape") for s in proto.strings)
            case Kinds.INTS | Kinds.FLOATS:
                value = tuple(helper.get_attribute_value(proto))
            case Kinds.INT | Kinds.FLOAT:
                value = helper.get_attribute_value(proto)
            case _:
                value = None
        return AttributeSnapshot(proto.name, kind, value)

    def _body(self, graph: GraphProto, outer: dict[str, int]) -> GraphSnapshot:
        scope = dict(outer)
        for name in [i.name for i in graph.input] + [o for n in graph.node for o in n.output]:
            scope.pop(name, None)  # shadowed by a definition inside
        return self._graph(
            graph.name,
            [i.name for i in graph.input],
            [o.name for o in graph.output],
            graph.node,
            graph.initializer,
            scope,
        )


def _strings(array: Any) -> Any:
    if array.dtype.kind not in "OSU":
        return array
    result = np.empty(array.shape, object)
    result.reshape(-1)[:] = [v.decode() if isinstance(v, bytes) else str(v) for v in array.reshape(-1).tolist()]
    return result
