"""Operations of nodes, resolved once per content: kernel and attribute values, or why the node cannot run."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from onnx_workbench.exec.engine.input_types import attribute_misfit
from onnx_workbench.exec.engine.snapshot import (
    ABSENT,
    AttributeSnapshot,
    GraphSnapshot,
    NodeSnapshot,
    TensorReference,
    attribute_key,
)
from onnx_workbench.exec.engine.stored_weights import StoredWeight, stored
from onnx_workbench.exec.errors import MissingKernelError
from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.registry import REQUIRED, Kernel, KernelFunction, find
from onnx_workbench.exec.values.arrays import RuntimeValue, SparseArray
from onnx_workbench.exec.values.statistics import nbytes
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor

#: Attributes inside a function, by name: from its caller and its defaults.
Environment = Mapping[str, AttributeSnapshot]
NO_ENVIRONMENT: Environment = {}

#: Plans made since, and bytes of constants and weights read since, after which those that no plan reads are evicted.
_PLANS, _GROWTH = 8, 1 << 25

#: Bit of outputs that depend on more than the inputs of their node: they are computed in every run.
AROUND = 1

#: Operators that run a part of the graph around them again.
_READ_AROUND = frozenset({("ai.onnx.preview.training", "Gradient")})

#: Attributes of opset 1 that only told a framework which buffers it may overwrite.
_DROPPED = frozenset({"consumed_inputs"})


@dataclass(slots=True, eq=False)
class Operation:
    """A kernel with the attribute values of a node; nodes of equal content share one.

    `problem`: why it cannot run; reported by the run, not by planning.
    """

    number: int
    opset: int
    kernel: Kernel | None = None
    attributes: dict[str, Any] = field(default_factory=dict)  # without bodies
    bodies: dict[str, GraphSnapshot] = field(default_factory=dict)
    problem: str = ""
    error: str = "KernelError"  # class of the problem
    notes: tuple[str, ...] = ()
    reads_around: bool = False  # its outputs depend on more than its inputs
    takes_context: bool = False  # the kernel takes a Context


class Prepared(NamedTuple):
    """A kernel prepared for certain weights, or None to use the plain one; `nbytes`: bytes of the weights."""

    call: KernelFunction | None
    nbytes: int


class Library:
    """Caches shared by the plans of one model: constants read from the file, resolved operations, prepared weights.

    Not thread-safe.
    """

    def __init__(self) -> None:
        load("onnx")  # other kernels are loaded on demand, see _kernel
        self._tokens: dict[Hashable, int] = {}
        self._numbers = count(1)
        self._operations: dict[Hashable, Operation] = {}
        self._of_nodes: dict[tuple[int, int], Operation] = {}  # by the uid of a node and its opset: after an edit
        self._tensors: Mapping[int, Tensor | SparseTensor] = {}
        self._arrays: dict[int, RuntimeValue] = {}
        self._free: dict[int, tuple[int, ...]] = {}
        self.folded: dict[Any, RuntimeValue] = {}
        self._bits: dict[int, int] = {}
        self.prepared: dict[tuple[int, tuple[int, ...]], Prepared] = {}  # by number of the operation, see `prepare`
        self.refused = False  # a constant could not be read, and plans hold steps that fail for it
        self.reads_on_demand = False  # weights stay in their file, see stored_weights; set before any is read
        self.folded_bytes = 0
        self.weight_bytes = 0  # of tensors read from the model and of prepared weights
        self._used = 0  # plans since the last `retain`
        self._kept = 0  # bytes after it

    def token(self, content: Hashable) -> int:
        """Return a number that is the same for the same content."""
        found = self._tokens.get(content)
        if found is None:
            found = self._tokens[content] = next(self._numbers)
        return found

    def input_bit(self, value: int) -> int:
        """Return the bit that stands for an input of the graph in masks, the same in all plans."""
        return self._bits.setdefault(value, AROUND << 1 + len(self._bits))

    @property
    def is_grown(self) -> bool:
        """Whether enough was added since the last `retain` to make another one worthwhile."""
        return self._used >= _PLANS or self.folded_bytes + self.weight_bytes > self._kept + _GROWTH

    def retain(
        self, tokens: Container[int], operations: Container[int], tensors: Container[int], known: Container[int]
    ) -> None:
        """Evict constants, weights and operations that belong to none of the given steps, operations and tensors.

        Edits have replaced them; tensors of the model can be read again. Tokens not in `known` are dropped; their
        numbers are not reused.
        """
        self._free.clear()
        self._of_nodes.clear()
        self._operations = {key: found for key, found in self._operations.items() if found.number in operations}
        self._arrays = {number: array for number, array in self._arrays.items() if number in tensors}
        self._tokens = {content: token for content, token in self._tokens.items() if token in known}
        self.folded = {token: values for token, values in self.folded.items() if token in tokens}
        self.prepared = {
            (number, constants): found
            for (number, constants), found in self.prepared.items()
            if number in operations and all(token <= 0 or token in known for token in constants)
        }
        self.folded_bytes = sum(nbytes(value) for values in self.folded.values() for value in values)
        self.weight_bytes = sum(map(nbytes, self._arrays.values())) + sum(p.nbytes for p in self.prepared.values())
        self._used, self._kept = 0, self.folded_bytes + self.weight_bytes

    def use(self, tensors: Mapping[int, Tensor | SparseTensor]) -> None:
        """Use the tensors of a snapshot from now on, of which a plan is made."""
        self._tensors = tensors
        self._used += 1

    def constant(self, number: int) -> RuntimeValue:
        """Return the values of a tensor, read at most once; ModelError or ValueError if they are not available."""
        value = self._arrays.get(number)
        if value is None:
            value = self._arrays[number] = runtime_constant(self._tensors[number])
            self.weight_bytes += nbytes(value)
        return value

    def stored(self, number: int) -> StoredWeight | None:
        """Return the placeholder for a tensor that stays in its file; None if its values are to be read."""
        if not self.reads_on_demand or number in self._arrays:
            return None
        return stored(self._tensors.get(number))

    def tensor_bytes(self, numbers: Iterable[int]) -> int:
        """Return the bytes of tensors of the model, whether or not they have been read."""
        return sum(tensor.nbytes for number in numbers if (tensor := self._tensors.get(number)) is not None)

    def release_weights(self) -> None:
        """Release the tensors read from the model and values derived from them; no plan may refer to them."""
        self._arrays.clear()
        self.folded.clear()
        self.prepared.clear()
        self.folded_bytes = self.weight_bytes = 0

    def constant_read(self, number: int) -> RuntimeValue | None:
        """Return the values of a tensor if it has been read, else None."""
        return self._arrays.get(number)

    def free_values(self, graph: GraphSnapshot) -> tuple[int, ...]:
        """Return the values that a body captures, also by bodies in it. Iterative, as nesting may be deep."""
        if graph.uid not in self._free:
            nested: list[GraphSnapshot] = []
            pending = [graph]
            while pending:
                body = pending.pop()
                nested.append(body)
                pending.extend(g for n in body.nodes for g in n.bodies if g.uid not in self._free)
            for body in reversed(nested):
                self._free.setdefault(body.uid, self._free_of(body))
        return self._free[graph.uid]

    def _free_of(self, graph: GraphSnapshot) -> tuple[int, ...]:
        defined = {ABSENT, *graph.inputs, *(v for v, _ in graph.initializers)}
        used: dict[int, None] = dict.fromkeys(graph.outputs)
        for node in graph.nodes:
            defined.update(node.outputs)
            used.update(dict.fromkeys(node.inputs))
            for body in node.bodies:
                used.update(dict.fromkeys(self._free[body.uid]))
        return tuple(v for v in used if v not in defined)

    def operation(
        self, node: NodeSnapshot, opset: int, environment: Environment = NO_ENVIRONMENT, context: Hashable = None
    ) -> Operation:
        """Return the operation of a node; `context` identifies what its bodies depend on besides their content."""
        if environment is NO_ENVIRONMENT and (known := self._of_nodes.get((node.uid, opset))) is not None:
            return known
        attributes = resolve(node.attributes, environment) if node.attributes else ()
        key: Hashable = (
            node.op_type, node.domain, opset, tuple([attribute_key(a) for a in attributes]) if attributes else (),
            _presence(node.inputs), _presence(node.outputs),
        )  # fmt: skip
        if node.bodies:
            key = (key, context, tuple(attribute_key(a) for a in environment.values()))
        found = self._operations.get(key)
        if found is None:
            found = self._operations[key] = self._settle(node, opset, attributes)
        if environment is NO_ENVIRONMENT and not node.bodies:
            self._of_nodes[node.uid, opset] = found
        return found

    def _settle(self, node: NodeSnapshot, opset: int, given: tuple[AttributeSnapshot, ...]) -> Operation:
        operation = Operation(next(self._numbers), opset)
        operation.reads_around = (node.domain, node.op_type) in _READ_AROUND
        try:
            kernel = operation.kernel = _kernel(node.op_type, opset, node.domain)
            self._convert(operation, kernel, node, given)
        except MissingKernelError as error:
            operation.problem, operation.error = str(error), "MissingKernelError"
        except (ModelError, ValueError, TypeError) as error:
            operation.problem = str(error)
        else:
            operation.takes_context = kernel.takes_context
            are_given = [number != ABSENT for number in node.inputs]
            operation.problem = kernel.arity_problem(are_given) or _missing_attribute(operation, kernel)
        return operation

    def _convert(
        self, operation: Operation, kernel: Kernel, node: NodeSnapshot, given: tuple[AttributeSnapshot, ...]
    ) -> None:
        ignored = []
        for attribute in given:
            if attribute.name in _DROPPED:
                continue
            if attribute.name not in kernel.attributes and not kernel.any_attributes:
                ignored.append(attribute.name)
            elif attribute.kind is AttributeKind.GRAPHS:
                msg = f"attribute {attribute.name!r} is a list of graphs, which no operator takes; expected one"
                raise ValueError(msg)
            elif misfit := attribute_misfit(node.op_type, operation.opset, node.domain, attribute.name, attribute.kind):
                raise ValueError(misfit)
            elif isinstance(attribute.value, GraphSnapshot):
                operation.bodies[attribute.name] = attribute.value
            elif attribute.value is not None:
                operation.attributes[attribute.name] = self.attribute_value(attribute.value)
        if ignored:
            operation.notes = (f"ignored unknown attributes: {', '.join(ignored)}",)

    def attribute_value(self, value: Any) -> Any:
        """Convert the value of an attribute to the argument of a kernel."""
        if isinstance(value, TensorReference):
            return self.constant(value.number)
        if isinstance(value, tuple) and value and isinstance(value[0], TensorReference):
            return tuple(self.constant(v.number) for v in value)
        return value


def _presence(values: tuple[int, ...]) -> Hashable:
    """Return a key that is equal for equally many values of which the same are omitted."""
    return tuple([value != ABSENT for value in values]) if ABSENT in values else len(values)


def _kernel(op_type: str, opset: int, domain: str) -> Kernel:
    """Return the kernel of an operator; kernels of other domains than ONNX's are loaded on demand."""
    try:
        return find(op_type, opset, domain)
    except MissingKernelError:
        load()
        return find(op_type, opset, domain)


def resolve(attributes: tuple[AttributeSnapshot, ...], environment: Environment) -> tuple[AttributeSnapshot, ...]:
    """Return attributes with references to those of the enclosing function resolved; unresolved ones are left out."""
    if not any(a.reference for a in attributes):
        return attributes
    result = []
    for attribute in attributes:
        if not attribute.reference:
            result.append(attribute)
        elif (found := environment.get(attribute.reference)) is not None:
            result.append(AttributeSnapshot(attribute.name, found.kind, found.value))
    return tuple(result)


def runtime_constant(tensor: Tensor | SparseTensor) -> RuntimeValue:
    """Return a tensor of the model as a run-time value. May read a file."""
    if isinstance(tensor, SparseTensor):
        return SparseArray(tensor.values.numpy(), tensor.indices.numpy(), tuple(tensor.shape))
    return tensor.numpy()


def _missing_attribute(operation: Operation, kernel: Kernel) -> str:
    for name, default in kernel.attributes.items():
        if default is REQUIRED and name not in operation.attributes and name not in operation.bodies:
            return f"attribute {name!r} is required and is not given; expected a value"
    return ""
