"""Known facts about values: element type, dimensions, and the contents of small integer tensors.

Facts stay valid while passes rewrite the graph, since rewriting changes how a value is computed, not its contents.
Declared types of inner values are ignored: only conclusions from inputs and constants count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.analysis.constants import Constants
from onnx_workbench.model.analysis.scoping import run_order
from onnx_workbench.model.analysis.symbolic import AnySize, is_never_negative, read, symbol
from onnx_workbench.model.analysis.symbolic_floats import constant
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import ElementType, TensorType, Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

Dims = tuple[AnySize, ...]

#: Larger integer tensors are data, not shapes.
LARGEST_CONTENTS = 64

_MOST_FACTORS = 8  # at least the dimensions of an image or a video

_INTEGERS = frozenset({ElementType.INT32, ElementType.INT64})


class KnownValues:
    """Facts about the values of a model, computed node by node in topological order."""

    def __init__(self, types: Mapping[Value, Type]) -> None:
        self._types = types
        self._elements: dict[Value, ElementType] = {}
        self._dims: dict[Value, Dims] = {}
        self.contents: dict[Value, NDArray[Any]] = {}  # object arrays of sizes and bools
        self.factors: dict[Value, tuple[float, ...]] = {}  # contents of floating-point numbers and small vectors
        self.differences: set[AnySize] = set()  # such as T - 2: dimensions, so not negative; assumed not 0
        self._fresh = 0

    def start(self, graph: Graph, constants: Mapping[Value, Tensor], *, declared: bool) -> None:
        """Add a graph's inputs and constants; `declared`: trust the declared types of its inputs."""
        for value in graph.inputs:
            self.seed(value, declared=declared)
        for value in graph.initializers:
            if value in constants:
                self.learn_constant(value, constants[value])
            else:
                self.seed(value, declared=declared)

    def seed(self, value: Value, *, declared: bool = False) -> None:
        """Add facts from the type of a value, if nothing is known of it; `declared`: use its declared type."""
        kind = value.type if declared else self._types.get(value)
        if not isinstance(kind, TensorType):
            return
        if isinstance(kind.element_type, ElementType) and kind.element_type is not ElementType.UNDEFINED:
            self._elements.setdefault(value, kind.element_type)
        if kind.shape is not None and value not in self._dims:
            self._dims[value] = tuple(self._size(d) for d in kind.shape.dims)
            self._note(self._dims[value])

    def learn_constant(self, value: Value, tensor: Tensor) -> None:
        """Add a constant."""
        if isinstance(tensor.element_type, ElementType):
            self._elements[value] = tensor.element_type
        self._dims[value] = tuple(tensor.shape)
        is_factor = tensor.element_type is ElementType.FLOAT and len(tensor.shape) <= 1 and tensor.size <= _MOST_FACTORS
        is_content = tensor.element_type in (*_INTEGERS, ElementType.BOOL) and 0 <= tensor.size <= LARGEST_CONTENTS
        if not is_factor and not is_content:
            return
        try:
            array = tensor.numpy()
        except (ModelError, ValueError):
            return
        if array.shape != tuple(tensor.shape):
            return
        if is_factor:
            self.factors[value] = tuple(array.reshape(-1).tolist())
            sizes = [constant(factor) for factor in self.factors[value]]
            if not any(size is None for size in sizes):
                self.contents[value] = np.empty(array.shape, object)
                self.contents[value].reshape(-1)[:] = sizes
        else:
            self.contents[value] = _objects(array)

    def learn(self, node: Node, opset: int) -> None:
        """Infer the outputs of a node from the facts about its inputs."""
        from onnx_workbench.model.analysis.shapes import contents_of, dims_of, element_type_of_result

        for value in node.outputs:
            if value is not None:
                self.seed(value)
        if not node.outputs or any(a.reference for a in node.attributes.values()):
            return
        found = dims_of(self, node, opset)
        for output, dims in zip(node.outputs, found, strict=False):
            if output is not None and dims is not None:
                self._refine(output, dims)
        if node.domain:
            return
        kind = element_type_of_result(self, node)
        if kind is not None and node.outputs[0] is not None:
            self._elements.setdefault(node.outputs[0], kind)
        for output, contents in zip(node.outputs, contents_of(self, node, opset), strict=False):
            if output is not None and contents is not None and contents.size <= LARGEST_CONTENTS:
                self.contents[output] = contents
                self._dims.setdefault(output, contents.shape)
        for output in node.outputs:
            if output is not None:
                self.name_contents(output)

    def name_contents(self, value: Value) -> None:
        """Assign a symbol to each element of a small integer vector of unknown contents."""
        if value in self.contents or self._elements.get(value) not in _INTEGERS:
            return
        shape = self.shape(value)
        if shape is None or len(shape) > 1 or (shape and shape[0] > LARGEST_CONTENTS):
            return
        array = np.empty(shape, object)
        array.reshape(-1)[:] = [symbol(self._unique("!")) for _ in range(array.size)]
        self.contents[value] = array

    def unknown_size(self) -> AnySize:
        """Return a new symbol for an unknown dimension."""
        return symbol(self._unique("?"))

    def forget(self, values: Iterable[Value]) -> None:
        """Remove all facts about values."""
        for value in values:
            for facts in (self._elements, self._dims, self.contents, self.factors):
                facts.pop(value, None)

    def same(self, new: Value, old: Value) -> None:
        """Copy the facts of an old value to a new one."""
        if old in self._elements:
            self._elements[new] = self._elements[old]
        if old in self._dims:
            self._dims[new] = self._dims[old]
        if old in self.contents:
            self.contents[new] = self.contents[old]

    def set_type(self, value: Value, element: ElementType | None, dims: Dims | None) -> None:
        """Set the facts of a value created by a pass."""
        if element is not None:
            self._elements[value] = element
        if dims is not None:
            self._dims[value] = dims

    # -- queries -------------------------------------------------------------------------------------------------

    def element_type(self, value: Value | None) -> ElementType | None:
        """Return the element type of a tensor, or None."""
        return None if value is None else self._elements.get(value)

    def dims(self, value: Value | None) -> Dims | None:
        """Return the dimensions of a tensor, symbols where unknown; None when the rank is unknown."""
        return None if value is None else self._dims.get(value)

    def rank(self, value: Value | None) -> int | None:
        """Return the number of dimensions, or None."""
        dims = self.dims(value)
        return None if dims is None else len(dims)

    def shape(self, value: Value | None) -> tuple[int, ...] | None:
        """Return the dimensions when all are numbers, else None."""
        dims = self.dims(value)
        if dims is None:
            return None
        known = tuple(d for d in dims if isinstance(d, int))
        return known if len(known) == len(dims) else None

    # -- learning ------------------------------------------------------------------------------------------------

    def _size(self, dim: int | str | None) -> AnySize:
        if isinstance(dim, int):
            return dim if dim >= 0 else self.unknown_size()
        # onnx's inference invents unk__ names for unknown sizes, and reuses them for different ones.
        return read(dim) if dim and not dim.startswith(("unk__", "?", "!")) else self.unknown_size()

    def _unique(self, mark: str) -> str:
        self._fresh += 1
        return f"{mark}{self._fresh}"

    def _refine(self, value: Value, found: Dims) -> None:
        """Replace dimensions of unknown size by the result of a rule."""
        self._note(found)
        known = self._dims.get(value)
        if known is None or len(known) != len(found):
            if known is None:
                self._dims[value] = found
            return
        self._dims[value] = tuple(b if _is_unknown(a) else a for a, b in zip(known, found, strict=True))

    def _note(self, dims: Dims) -> None:
        self.differences.update(size for size in dims if not is_never_negative(size))


class ModelValues(KnownValues):
    """Facts about the values of all graphs and functions except training graphs, from inferred `types`."""

    def __init__(self, model: Model, types: Mapping[Value, Type], constants: Constants | None = None) -> None:
        main = {value: kind for value, kind in types.items() if value.graph and value.graph.root is model.graph}
        super().__init__(main)
        self._model = model
        self._constants = constants or Constants(model)
        self.learn_model()

    def learn_model(self) -> None:
        """Compute facts about all nodes in topological order; again after changes."""
        for root in (self._model.graph, *(function.body for function in self._model.functions)):
            # A subgraph follows when its node is visited, as it may use earlier facts.
            pending: list[Iterator[Node]] = [self._start_graph(root)]
            while pending:
                node = next(pending[-1], None)
                if node is None:
                    pending.pop()
                    continue
                self.learn_node(node)
                pending.extend(self._start_graph(body) for body in reversed(node.bodies))

    def _start_graph(self, graph: Graph) -> Iterator[Node]:
        constants = {v: t for v in graph.initializers if (t := self._constants.tensor(v)) is not None}
        self.start(graph, constants, declared=graph is self._model.graph)
        return iter(run_order(graph))

    def learn_node(self, node: Node) -> None:
        """Compute facts about one node's outputs."""
        output = node.outputs[0] if node.outputs else None
        tensor = self._constants.tensor(output) if node.op_type == "Constant" and not node.domain else None
        if tensor is not None and output is not None:
            self.learn_constant(output, tensor)
        else:
            self.learn(node, 1 if node.graph is None else node.graph.opset_imports.get(node.domain, 1))


def _is_unknown(size: AnySize) -> bool:
    return not isinstance(size, int) and str(size).startswith("?")


def _objects(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of Python objects, which can mix numbers and symbols."""
    result = np.empty(array.shape, object)
    result.reshape(-1)[:] = array.reshape(-1).tolist()
    return result
