"""A node under conversion, for opset adapters: read its constants and types, change it, insert nodes around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.analysis.node_constants import tensor_of
from onnx_workbench.model.analysis.value_types import TypeOf, dims_of
from onnx_workbench.model.convert.report import ConversionReport
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField, SetOutputs
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, Tensor
from onnx_workbench.model.ir.types import Dimension, ElementType, TensorType, Type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LARGEST_CONSTANT = 1 << 16  # most elements of an input that can become an attribute


def numbers_of(value: Value | None) -> NDArray[Any] | None:
    """Return the elements of a constant, None where they are many; ModelError where they are not available."""
    tensor = tensor_of(value)
    return None if tensor is None or tensor.size > _LARGEST_CONSTANT else tensor.numpy()


@dataclass(frozen=True, slots=True)
class OpsetConversion:
    """State shared by the conversion of all nodes.

    `version` is the target version. `contents` holds small integer values as before the conversion: numbers, and
    symbols where unknown.
    """

    rewriter: GraphRewriter
    type_of: TypeOf
    report: ConversionReport
    version: int
    contents: Mapping[Value, NDArray[Any]] = field(default_factory=dict)


class NodeEditor:
    """A node under conversion."""

    def __init__(self, conversion: OpsetConversion, node: Node) -> None:
        assert node.graph is not None
        self.conversion = conversion
        self.rewriter = conversion.rewriter
        self.node = node
        self.graph: Graph = node.graph
        self.report = conversion.report
        self._added: list[Node] = []

    def drain_added(self) -> list[NodeEditor]:
        """Return the nodes inserted since the last call; they are written in the version just reached."""
        added, self._added = self._added, []
        return [NodeEditor(self.conversion, node) for node in added if node.graph is not None]

    # -- reading -------------------------------------------------------------------------------------------------

    def refuse(self, reason: str) -> ModelError:
        """Return the error that names this node, and why it cannot be converted."""
        return ModelError(f"{self.node.op_type} cannot be converted", f"{self.node.title}: {reason}", self.node)

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
            raise self.refuse(f"its input {index} is computed while the model runs; before, it was an attribute")
        return array

    def constant_or_none(self, index: int) -> NDArray[Any] | None:
        """Return the values of an input if it is a small constant."""
        value = self.input(index)
        numbers = None if value.is_input else numbers_of(value)
        return self._computed(value) if numbers is None else numbers

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
        held = self.node.attributes.get(name)
        if held is not None and held.reference:
            raise self.refuse(f"its attribute {name} comes from the caller of the function")
        return default if held is None or held.value is None else held.value

    def dims(self, index: int) -> tuple[Dimension, ...] | None:
        """Return the dimensions of an input, None if its rank is unknown."""
        return dims_of(self.input(index), self.conversion.type_of)

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
        kind = self.type_of(index)
        element = kind.element_type if isinstance(kind, TensorType) else None
        if not isinstance(element, ElementType) or not element:
            raise self.refuse(f"the type of its input {index} is not known")
        return element.numpy_dtype

    # -- writing -------------------------------------------------------------------------------------------------

    @property
    def edit(self) -> Transaction:
        """The edit that the changes are part of."""
        return self.rewriter.edit

    def set(self, name: str, value: Any) -> None:
        """Set an attribute."""
        self.rewriter.set_attribute(self.node, name, value)

    def drop(self, *names: str) -> None:
        """Remove attributes."""
        for name in names:
            if name in self.node.attributes:
                self.rewriter.set_attribute(self.node, name, None)

    def rename(self, op_type: str) -> None:
        """Change the operator."""
        self.edit.do(SetField(self.node, "op_type", op_type))

    def become_constant(self) -> bool:
        """Replace the node by a constant if its value is known; returns whether it is."""
        value = self.node.outputs[0] if len(self.node.outputs) == 1 else None
        array = None if value is None or self.node.bodies else self._computed(value)
        if value is None or array is None:
            return False
        kind = self.conversion.type_of(value)
        element = kind.element_type if isinstance(kind, TensorType) else ElementType.INT64
        self.rewriter.fold(self.node, [ArrayTensor(array.astype(ElementType(element).numpy_dtype))])
        self.report.changed(f"{self.node.op_type} became a constant, as its value is known", value)
        return True

    def set_inputs(self, inputs: Sequence[Value | None]) -> None:
        """Replace all inputs; trailing empty ones are dropped, and unused producers removed."""
        self.rewriter.set_inputs(self.node, inputs)

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
        base = self.node.name or next((v.name for v in self.node.outputs if v is not None), self.node.op_type)
        value = self.rewriter.constant(self.graph, array, f"{base}_{word}", self.node)
        if value.producer is not None:
            self._added.append(value.producer)
        return value

    def before(self, op_type: str, inputs: Sequence[Value | None], **attributes: Any) -> Value:
        """Insert a node before this one; returns its output."""
        (output,) = self._add(op_type, inputs, attributes, self.node, None).outputs
        assert output is not None
        return output

    def after(
        self, op_type: str, more_inputs: Sequence[Value | None] = (), *, output: int = 0, **attributes: Any
    ) -> None:
        """Insert a node behind an output, which keeps its name and its users."""
        final = self.node.outputs[output]
        assert final is not None
        inner = self.rewriter.release_output(final, f"{final.name}_before_{op_type}")
        self._add(op_type, [inner, *more_inputs], attributes, self.node.next, [final])

    def _add(
        self,
        op_type: str,
        inputs: Sequence[Value | None],
        attributes: dict[str, Any],
        before: Node | None,
        outputs: Sequence[Value] | None,
    ) -> Node:
        name = f"{self.node.name or self.node.op_type}_{op_type}"
        node = self.rewriter.add_node(
            self.graph, op_type, inputs, attributes,
            name=name, before=before, outputs=outputs, metadata=self.node.metadata,
        )  # fmt: skip
        self._added.append(node)
        return node

    def keep_first_output(self) -> None:
        """Drop all outputs but the first; ModelError if one is used."""
        for value in self.node.outputs[1:]:
            if value is not None and value.uses:
                raise self.refuse(f"its output {value.name} does not exist there any more and is used")
        if len(self.node.outputs) > 1:
            self.edit.do(SetOutputs(self.node, self.node.outputs[:1]))
