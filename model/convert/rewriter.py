"""Node rewriting for opset adapters: read constants, set inputs and attributes, insert nodes before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.analysis.scoping import TakenNames, names_taken, node_names, unique_name
from onnx_workbench.model.convert.report import ConversionReport
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import (
    InsertNode,
    RemoveNode,
    SetAttribute,
    SetField,
    SetInitializer,
    SetInputs,
    SetOutputs,
)
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, Tensor
from onnx_workbench.model.ir.types import Dimension, ElementType, TensorType, Type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LARGEST_CONSTANT = 1 << 16  # most elements of an input that can become an attribute
_INITIALIZERS_ALONE_SINCE = 4  # IR version: before it every initializer is an input too


class NotConvertible(ModelError):
    """A node that no adapter here can convert, though another converter may."""


class FreshNames:
    """Free names in a model; collected once, then kept up to date."""

    def __init__(self) -> None:
        self._taken: dict[Graph, tuple[TakenNames, TakenNames]] = {}

    def _of(self, graph: Graph) -> tuple[TakenNames, TakenNames]:
        root = graph.root
        if root not in self._taken:
            self._taken[root] = names_taken(root), node_names(root)
        return self._taken[root]

    def value(self, graph: Graph, wanted: str) -> str:
        """Return a free name for a value."""
        taken = self._of(graph)[0]
        name = unique_name(wanted, taken)
        taken.add(name)
        return name

    def node(self, graph: Graph, wanted: str) -> str:
        """Return a free name for a node."""
        taken = self._of(graph)[1]
        name = unique_name(wanted, taken)
        taken.add(name)
        return name


def number_constant(node: Node) -> NDArray[Any] | None:
    """Return the numbers of a Constant, None where they are many, not numbers, or an attribute reference."""
    import numpy as np

    for name, attribute in node.attributes.items():
        value = attribute.value
        if isinstance(value, Tensor):
            return value.numpy() if value.size <= _LARGEST_CONSTANT and not value.problem else None
        dtype = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
        if name in dtype and not attribute.reference:
            return np.array(value, dtype[name])
    return None


def _is_needed(node: Node) -> bool:
    return bool(node.bodies) or any(value is not None and value.uses for value in node.outputs)


@dataclass(frozen=True, slots=True)
class OpsetConversion:
    """State shared by the conversion of all nodes.

    `contents` holds small integer values as before the conversion: numbers, and symbols where unknown.
    """

    edit: Transaction
    type_of: Callable[[Value], Type | None]
    report: ConversionReport
    names: FreshNames = field(default_factory=FreshNames)
    contents: Mapping[Value, NDArray[Any]] = field(default_factory=dict)


class NodeRewriter:
    """A node under conversion."""

    def __init__(self, conversion: OpsetConversion, node: Node) -> None:
        assert node.graph is not None
        self.conversion = conversion
        self.edit = conversion.edit
        self.node = node
        self.graph: Graph = node.graph
        self.report = conversion.report
        self._names = conversion.names
        self._added: list[Node] = []

    def take_added(self) -> list[NodeRewriter]:
        """Return the nodes inserted since the last call; they are written in the version just reached."""
        added, self._added = self._added, []
        return [NodeRewriter(self.conversion, node) for node in added if node.graph is not None]

    def _add(self, node: Node, before: Node | None) -> None:
        self.edit.do(InsertNode(self.graph, node, before))
        self._added.append(node)

    # -- reading -------------------------------------------------------------------------------------------------

    def refuse(self, reason: str) -> ModelError:
        """Return the error that names this node: the other version cannot express it."""
        return ModelError(f"{self.node.op_type} cannot be converted", f"{self.node.title}: {reason}", self.node)

    def unable(self, reason: str) -> NotConvertible:
        """Return the same error for what may be expressible, but is not supported here."""
        error = self.refuse(reason)
        return NotConvertible(error.title, error.detail, error.place)

    def has(self, index: int) -> bool:
        """Return whether an input is present."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def input(self, index: int) -> Value:
        """Return a required input."""
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        if value is None:
            raise self.refuse(f"its input {index} is missing")
        return value

    def constant(self, index: int) -> NDArray[Any]:
        """Return the values of a constant input; ModelError for a computed one."""
        array = self.constant_or_none(index)
        if array is None:
            raise self.unable(f"its input {index} is computed while the model runs; before, it was an attribute")
        return array

    def constant_or_none(self, index: int) -> NDArray[Any] | None:
        """Return the values of an input if it is a small constant."""
        value = self.input(index)
        tensor: Any = value.initializer if not value.is_input else None
        if tensor is None and value.producer is not None and value.producer.op_type == "Constant":
            return number_constant(value.producer)
        if not isinstance(tensor, Tensor) or tensor.size > _LARGEST_CONSTANT:
            return self._computed(value)
        return tensor.numpy()

    def _computed(self, value: Value) -> NDArray[Any] | None:
        """Return the contents of a value that is computed from known sizes."""
        import numpy as np

        contents = self.conversion.contents.get(value)
        if contents is None or not all(isinstance(number, int) for number in contents.reshape(-1)):
            return None
        kind = self.conversion.type_of(value)
        element = kind.element_type if isinstance(kind, TensorType) else None
        return contents.astype(element.numpy_dtype if isinstance(element, ElementType) and element else np.int64)

    def type_of(self, index: int) -> Type | None:
        """Return the type of an input, None if unknown."""
        value = self.input(index)
        tensor = value.initializer
        if isinstance(tensor, Tensor) and isinstance(tensor.element_type, ElementType):
            return tensor.type
        return self.conversion.type_of(value)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute's value; ModelError for an attribute reference."""
        found = self.node.attributes.get(name)
        if found is not None and found.reference:
            raise self.refuse(f"its attribute {name} comes from the caller of the function")
        return default if found is None or found.value is None else found.value

    def dims(self, index: int) -> tuple[Dimension, ...] | None:
        """Return the dimensions of an input, None if its rank is unknown."""
        value = self.input(index)
        if value.initializer is not None:
            return tuple(value.initializer.shape)
        kind = self.conversion.type_of(value)
        return kind.shape.dims if isinstance(kind, TensorType) and kind.shape is not None else None

    def rank(self, index: int) -> int | None:
        """Return the rank of an input, None if unknown."""
        dims = self.dims(index)
        return None if dims is None else len(dims)

    def known_rank(self, index: int) -> int:
        """Return the rank of an input; ModelError if unknown."""
        rank = self.rank(index)
        if rank is None:
            raise self.refuse(f"the rank of its input {index} is not known")
        return rank

    def dtype(self, index: int) -> np.dtype[Any]:
        """Return the numpy dtype of an input."""
        value = self.input(index)
        kind = self.conversion.type_of(value)
        found = value.initializer.element_type if value.initializer is not None else None
        if found is None and isinstance(kind, TensorType):
            found = kind.element_type
        if not isinstance(found, ElementType) or not found:
            raise self.unable(f"the type of its input {index} is not known")
        return found.numpy_dtype

    # -- writing -------------------------------------------------------------------------------------------------

    def set(self, name: str, value: Any) -> None:
        """Set an attribute."""
        self.edit.do(SetAttribute(self.node, name, make_attribute(name, value)))

    def drop(self, *names: str) -> None:
        """Remove attributes."""
        for name in names:
            if name in self.node.attributes:
                self.edit.do(SetAttribute(self.node, name, None))

    def rename(self, op_type: str) -> None:
        """Change the operator."""
        self.edit.do(SetField(self.node, "op_type", op_type))

    def become_constant(self) -> bool:
        """Replace the node by a Constant if its value is known; returns whether it is."""
        value = self.node.outputs[0] if len(self.node.outputs) == 1 else None
        array = None if value is None or self.node.bodies else self._computed(value)
        if value is None or array is None:
            return False
        following, inputs = self.node.next, self.node.inputs
        self.edit.do(RemoveNode(self.node))
        kind = self.conversion.type_of(value)
        element = kind.element_type if isinstance(kind, TensorType) else ElementType.INT64
        tensor = ArrayTensor(array.astype(ElementType(element).numpy_dtype))
        attributes = {"value": make_attribute("value", tensor)}
        constant = Node("Constant", (), (value,), name=self.node.name, attributes=attributes)
        self.edit.do(InsertNode(self.graph, constant, following))
        self._collect(v for v in inputs if v is not None)
        self.report.changed(f"{self.node.op_type} became a constant, as what it gives is known", constant)
        return True

    def set_inputs(self, inputs: Sequence[Value | None]) -> None:
        """Replace all inputs; trailing empty ones are dropped, and unused producers removed."""
        kept = list(inputs)
        while kept and kept[-1] is None:
            kept.pop()
        before = self.node.inputs
        self.edit.do(SetInputs(self.node, tuple(kept)))
        self._collect(value for value in before if value is not None)

    def _collect(self, values: Iterable[Value]) -> None:
        """Remove producers and holders of values without any use or reference."""
        model = self.graph.model
        if model is None or model.training_info or any(g.quantization_annotations for g in model.graphs()):
            return
        pending = list(values)
        while pending:
            value = pending.pop()
            node = value.producer
            if value.uses or value.is_input or value.graph is None:
                continue
            if value.initializer is not None:
                self.edit.do(SetInitializer(value.graph, value, None))
            elif node is not None and node.graph is not None and not _is_needed(node):
                self.edit.do(RemoveNode(node))
                pending.extend(v for v in node.inputs if v is not None)

    def give(self, index: int, array: NDArray[Any], word: str) -> None:
        """Make a constant an input."""
        inputs: list[Value | None] = list(self.node.inputs)
        inputs += [None] * (index + 1 - len(inputs))
        inputs[index] = self.make_constant(array, word)
        self.set_inputs(inputs)

    def keep_inputs(self, count: int) -> None:
        """Drop inputs from an index on."""
        self.set_inputs(self.node.inputs[:count])

    def make_constant(self, array: NDArray[Any], word: str) -> Value:
        """Return a new constant of the graph."""
        import numpy as np

        base = self.node.name or next((v.name for v in self.node.outputs if v is not None), self.node.op_type)
        name = self._names.value(self.graph, f"{base}_{word}")
        tensor = ArrayTensor(np.array(array, order="C"), name=name)
        value = Value(name)
        owner = self.graph.root.owner
        in_old_file = isinstance(owner, Model) and owner.ir_version < _INITIALIZERS_ALONE_SINCE
        if isinstance(self.graph.owner, Function) or in_old_file:
            attributes = {"value": make_attribute("value", tensor)}
            node_name = self._names.node(self.graph, f"Constant_{name}")
            constant = Node("Constant", (), (value,), name=node_name, attributes=attributes)
            self._add(constant, self.node)
        else:
            self.edit.do(SetInitializer(self.graph, value, tensor))
        return value

    def before(self, op_type: str, inputs: Sequence[Value | None], **attributes: Any) -> Value:
        """Insert a node before this one; returns its output."""
        return self._insert(op_type, inputs, self.node, attributes)

    def _insert(
        self, op_type: str, inputs: Sequence[Value | None], before: Node | None, attributes: dict[str, Any]
    ) -> Value:
        base = self.node.name or self.node.op_type
        name = self._names.node(self.graph, f"{base}_{op_type}")
        output = Value(self._names.value(self.graph, f"{name}_output"))
        made = {key: make_attribute(key, value) for key, value in attributes.items()}
        self._add(Node(op_type, tuple(inputs), (output,), name=name, attributes=made), before)
        return output

    def after(
        self, op_type: str, more_inputs: Sequence[Value | None] = (), *, output: int = 0, **attributes: Any
    ) -> None:
        """Insert a node behind an output, which keeps its name and its users."""
        outputs = list(self.node.outputs)
        final = outputs[output]
        assert final is not None
        inner = outputs[output] = Value(self._names.value(self.graph, f"{final.name}_before_{op_type}"))
        following = self.node.next
        self.edit.do(SetOutputs(self.node, tuple(outputs)))
        name = self._names.node(self.graph, f"{self.node.name or self.node.op_type}_{op_type}")
        made = {key: make_attribute(key, value) for key, value in attributes.items()}
        node = Node(op_type, (inner, *more_inputs), (final,), name=name, attributes=made)
        self._add(node, following)

    def drop_outputs(self, count: int) -> None:
        """Keep the first outputs; ModelError if another one is used."""
        for value in self.node.outputs[count:]:
            if value is not None and value.uses:
                raise self.refuse(f"its output {value.name} does not exist there any more and is used")
        if len(self.node.outputs) > count:
            self.edit.do(SetOutputs(self.node, self.node.outputs[:count]))
