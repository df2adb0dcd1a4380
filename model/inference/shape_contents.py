"""Contents of small integer tensors while inference visits a graph: sizes that flow from Shape to Reshape.

`analysis` computes them on the IR of the same model, only where a node needs them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.inference.node_call import to_dimension
from onnx_workbench.model.io.protobuf import AttributeProto, TensorProto
from onnx_workbench.model.io.reader.decode import MessageDecoder
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import Dimension, ElementType, Shape, TensorType, Type

if TYPE_CHECKING:
    from onnx_workbench.model.analysis.constants import Constants
    from onnx_workbench.model.analysis.values import KnownValues

_LARGEST = 64  # more entries are no shape
_INTEGERS = frozenset({ElementType.INT32, ElementType.INT64, ElementType.BOOL})
_NEED_SIZES_ONLY = frozenset({"Shape", "Size"})  # of their inputs
#: Operators of which symbolic shape arithmetic may know more than onnx's inference.
RESHAPING = frozenset({"Reshape", "Expand", "ConstantOfShape"})


class ModelIR:
    """The IR of the model that inference works on as messages; read on first use."""

    def __init__(self, data: bytes, messages: Iterable[Any]) -> None:
        self._data = data
        self._positions = {id(message): position for position, message in enumerate(messages)}

    @cached_property
    def model(self) -> Model:
        """The model."""
        from onnx_workbench.model.io.reader.read import load

        return load(self._data)

    @cached_property
    def constants(self) -> Constants:
        """The constants of the model."""
        from onnx_workbench.model.analysis.constants import Constants

        return Constants(self.model)

    @cached_property
    def graphs(self) -> Sequence[Graph]:
        """All graphs, as `messages`."""
        return list(self.model.graphs())

    @cached_property
    def values(self) -> Sequence[dict[str, Value]]:
        """Values by name, graph by graph."""
        return [{value.name: value for value in graph.values()} for graph in self.graphs]

    def position(self, message: Any) -> int:
        """Return the position of a graph or function message in these lists."""
        return self._positions[id(message)]


class ShapeContents:
    """Contents of small integer tensors of one graph, during one visit of its nodes in order.

    `visible` are the types found so far by name, those of outer graphs included; `attributes` those of the call whose
    function is visited.
    """

    def __init__(
        self,
        ir: ModelIR,
        message: Any,
        visible: Mapping[str, Type],
        outer: ShapeContents | None,
        attributes: Mapping[str, AttributeProto],
    ) -> None:
        self._ir = ir
        self._message = message
        self.visible = visible
        self._outer = outer
        self._attributes = attributes
        self._types: dict[Value, Type] = {} if outer is None else outer._types
        self._opened: set[Value] = set()  # values whose contents were requested
        self._learned: set[Value] = set()
        self._tensors: dict[str, Any] = {t.name: t for t in getattr(message, "initializer", ())}

    @cached_property
    def _facts(self) -> KnownValues:
        from onnx_workbench.model.analysis.values import KnownValues

        if self._outer is None:
            return KnownValues(self._types)
        facts = self._outer._facts
        facts.forget(self._values.values())  # known from another visit, as of a loop body, with other types
        return facts

    @cached_property
    def _graph(self) -> Graph:
        return self._ir.graphs[self._ir.position(self._message)]

    @cached_property
    def _values(self) -> Mapping[str, Value]:
        return self._ir.values[self._ir.position(self._message)]

    def visit(self, node: Any) -> None:
        """Remember the tensor of a Constant node, for rules that depend on it."""
        if node.op_type == "Constant" and node.output:
            for attribute in node.attribute:
                if attribute.name == "value" and attribute.HasField("t"):
                    self._tensors[node.output[0]] = attribute.t

    def tensor(self, name: str) -> Any:
        """Return a message with the values of a name, if all are known: for rules that depend on them."""
        found = self._tensors.get(name)
        if found is not None:
            return found if found.data_location == 0 else None
        values = self.of(name)
        numbers = [v for v in values or () if isinstance(v, int) and not isinstance(v, bool)]
        if values is None or len(numbers) < len(values):
            return None
        kind = self.visible.get(name)
        is_scalar = isinstance(kind, TensorType) and kind.shape is not None and not kind.shape.rank
        dims = () if is_scalar else (len(numbers),)
        return TensorProto(name=name, data_type=ElementType.INT64, dims=dims, int64_data=numbers)

    def of(self, name: str) -> Sequence[Dimension] | None:
        """Return the elements of a small integer scalar or vector: numbers, symbols or formulas, None where unknown.

        None when their number is unknown too.
        """
        if not name or not _may_be_sizes(self.visible.get(name)):
            return None
        value = self._value(name)
        if value is None:
            return None
        self._learn(value)
        contents = self._facts.contents.get(value)
        if contents is None or (contents.ndim > 1 and contents.size != 1):
            return None
        if self._facts.element_type(value) not in _INTEGERS:
            return None
        return [to_dimension(size) for size in contents.reshape(-1)]

    def truth(self, node: Any) -> bool | None:
        """Return the condition of an If, where it is constant or compares known sizes."""
        found = self.of(node.input[0]) if node.input else None
        return bool(found[0]) if found is not None and len(found) == 1 and isinstance(found[0], int) else None

    def shape_of_result(self, node: Any) -> Type | None:
        """Return the type of Reshape, Expand or ConstantOfShape when its shape input is partly known."""
        if node.domain not in ("", "ai.onnx") or node.op_type not in RESHAPING or not node.output:
            return None
        value = self._value(node.output[0])
        if value is None or value.producer is None:
            return None
        for given in value.producer.inputs:
            if given is not None and self._may_have_contents(given):
                self._learn(given)
        self._learn_node(value.producer)
        element, dims = self._facts.element_type(value), self._facts.dims(value)
        return None if element is None or dims is None else TensorType(element, Shape(tuple(map(to_dimension, dims))))

    def _value(self, name: str) -> Value | None:
        found = self._values.get(name)
        return self._outer._value(name) if found is None and self._outer is not None else found

    def _learn(self, wanted: Value) -> None:
        """Compute the contents of a value from those of the values that it is computed from."""

        pending = [wanted]
        while pending:
            value = pending[-1]
            if value not in self._opened:
                self._opened.add(value)
                unknown = [v for v in self._sources(value) if v not in self._opened]
                if unknown:
                    pending += unknown
                    continue
            pending.pop()
            if value not in self._learned:
                self._learned.add(value)
                self._learn_one(value)

    def _sources(self, value: Value) -> Iterator[Value]:
        """Yield the values whose contents those of a value may depend on."""
        from onnx_workbench.model.analysis.shapes import CONTENT_OPERATORS

        node = value.producer
        if value.graph is not self._graph or node is None or node.domain or node.op_type not in CONTENT_OPERATORS:
            return
        if node.op_type not in _NEED_SIZES_ONLY:
            yield from (v for v in node.inputs if v is not None and self._may_have_contents(v))

    def _may_have_contents(self, value: Value) -> bool:
        kind = self.visible.get(value.name)
        if not isinstance(kind, TensorType) or kind.shape is None:
            return kind is None or isinstance(kind, TensorType)
        sizes = [size for size in kind.shape.dims if isinstance(size, int)]
        return len(sizes) == kind.shape.rank and math.prod(sizes) <= _LARGEST

    def _learn_one(self, value: Value) -> None:
        if value.graph is not self._graph and self._outer is not None:
            self._outer._learn(value)
            return
        tensor = self._ir.constants.tensor(value)
        if tensor is not None:
            self._facts.learn_constant(value, tensor)
        elif value.producer is not None:
            self._learn_node(value.producer)
        else:
            self._seed(value)
            self._facts.name_contents(value)

    def _learn_node(self, node: Node) -> None:
        """Compute the outputs of a node, from the types known so far."""
        for value in (*node.inputs, *node.outputs):
            if value is not None:
                self._seed(value)
        node = self._resolved(node)
        from onnx_workbench.model.analysis.node_constants import constant_tensor

        tensor = constant_tensor(node)
        output = node.outputs[0] if node.outputs else None
        if isinstance(tensor, Tensor) and output is not None:
            self._facts.learn_constant(output, tensor)
        else:
            self._facts.learn(node, 1 if node.graph is None else node.graph.opset_imports.get(node.domain, 1))

    def _seed(self, value: Value) -> None:
        kind = self.visible.get(value.name)
        if kind is not None:
            self._types[value] = kind
            self._facts.seed(value)

    def _resolved(self, node: Node) -> Node:
        """Return a node of a function with attribute references resolved; itself where it has none."""
        if not self._attributes:
            return node
        references = {a.name: a.reference for a in node.attributes.values() if a.reference in self._attributes}
        given = {name: self._attributes[reference] for name, reference in references.items()}
        if not given:
            return node
        attributes = dict(node.attributes)
        for name, message in given.items():
            decoder = MessageDecoder(attributes[name].source.files)
            attributes[name] = dataclasses.replace(decoder.attribute(message), name=name)
        resolved = Node(node.op_type, node.inputs, node.outputs, domain=node.domain, attributes=attributes)
        resolved.graph = node.graph
        return resolved


def _may_be_sizes(kind: Type | None) -> bool:
    """Return whether a type is unknown or that of a small integer scalar or vector."""
    if not isinstance(kind, TensorType):
        return kind is None
    if kind.element_type not in _INTEGERS:
        return False
    sizes = [] if kind.shape is None else [size for size in kind.shape.dims if isinstance(size, int)]
    return math.prod(sizes) <= _LARGEST
