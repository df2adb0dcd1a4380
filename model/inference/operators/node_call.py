"""A node as the rules of operators see it, and helpers for several of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.inference.facts import Dims, Facts
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.types import MOST_DIMENSIONS, ElementType, Type
from onnx_workbench.model.schemas.registry import find
from onnx_workbench.model.schemas.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SizeMismatch(Exception):
    """The sizes of a node's inputs exclude each other, or its attributes; the message says how."""


@dataclass(frozen=True, slots=True)
class Sized:
    """A tensor as a rule returns it. `dims` is None for an unknown rank, a size in it None where unknown."""

    element_type: ElementType | None
    dims: Sequence[AnySize | None] | None


#: What a rule returns for an output: dimensions, where the schema gives the element type; a tensor; another type; None.
Found = Sequence[AnySize | None] | Sized | Type | None


@dataclass(slots=True, eq=False)
class NodeCall:
    """A node and the facts about its inputs. Attributes have the defaults of the operator's version."""

    node: Node
    opset: int
    facts: Facts
    schema: Schema | None

    @classmethod
    def of(cls, node: Node, facts: Facts) -> NodeCall:
        """Return the call of a node under the imports of its graph."""
        opset = 1 if node.graph is None else node.graph.opset_imports.get(node.domain, 1)
        return cls(node, opset, facts, find(node.op_type, opset, node.domain))

    @property
    def outputs(self) -> int:
        """The number of outputs, left out ones included."""
        return len(self.node.outputs)

    def input(self, index: int) -> Value | None:
        """Return an input; None if it is left out."""
        inputs = self.node.inputs
        return inputs[index] if index < len(inputs) else None

    def type(self, index: int) -> Type | None:
        """Return the type of an input, None if unknown."""
        return self.facts.type_of(self.input(index))

    def kind(self, index: int) -> ElementType | None:
        """Return the element type of an input, None if unknown or no tensor."""
        return self.facts.element_type(self.input(index))

    def dims(self, index: int) -> Dims | None:
        """Return the dimensions of an input, None when its rank is unknown."""
        return self.facts.dims(self.input(index))

    def tensor(self, index: int) -> Sized | None:
        """Return an input as a result, if its element type is known."""
        kind = self.kind(index)
        return None if kind is None else Sized(kind, self.dims(index))

    def content(self, index: int) -> NDArray[Any] | None:
        """Return the elements of a small integer input, numbers and symbols; None if unknown or left out."""
        value = self.input(index)
        return None if value is None else self.facts.contents.get(value)

    def numbers(self, index: int) -> tuple[int, ...] | None:
        """Return the elements of a small integer input, when all are numbers."""
        content = self.content(index)
        if content is None:
            return None
        flat = content.reshape(-1).tolist()
        return tuple(flat) if all(isinstance(v, int) for v in flat) else None

    def scalar(self, index: int) -> AnySize | None:
        """Return the only element of a small integer input."""
        content = self.content(index)
        return content.reshape(-1)[0] if content is not None and content.size == 1 else None

    def open_dims(self, index: int) -> tuple[None, ...] | None:
        """Return as many unknown sizes as a vector of sizes has elements; None if that is unknown."""
        shape = self.facts.shape(self.input(index))
        is_vector = shape is not None and len(shape) == 1 and shape[0] <= MOST_DIMENSIONS
        return (None,) * shape[0] if shape is not None and is_vector else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute's value, its default, or the one given here."""
        own = self.node.attributes.get(name)
        if own is not None:
            return default if own.value is None or own.reference else own.value
        formal = None if self.schema is None else self.schema.attributes.get(name)
        return default if formal is None or formal.default is None else formal.default.value

    def integer(self, name: str, otherwise: int = 0) -> int:
        """Return an INT attribute or its default; `otherwise` where the operator's version has neither."""
        value = self.attribute(name)
        return value if isinstance(value, int) else otherwise

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return an INTS attribute or its default; None without either."""
        value = self.attribute(name)
        return tuple(value) if isinstance(value, tuple) and all(isinstance(v, int) for v in value) else None

    def text(self, name: str, otherwise: str = "") -> str:
        """Return a STRING attribute or its default; `otherwise` where the operator's version has neither."""
        value = self.attribute(name)
        return value if isinstance(value, str) else otherwise


Rule = Callable[[NodeCall], Sequence[Found]]


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """Return an axis counted from the first; SizeMismatch for one that does not exist."""
    if not -rank <= axis < rank:
        raise SizeMismatch(f"{what} is {axis}, expected {-rank} to {rank - 1}")
    return axis % rank if rank else 0


def expect_rank(dims: Dims | None, what: str, *ranks: int) -> None:
    """Raise SizeMismatch if a known rank is none of these."""
    if dims is not None and len(dims) not in ranks:
        expected = " or ".join(map(str, ranks))
        raise SizeMismatch(f"{what} has {len(dims)} dimensions, expected {expected}")


def expect_equal(a: AnySize | None, b: AnySize | None, what: str) -> None:
    """Raise SizeMismatch if two sizes are numbers and differ."""
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise SizeMismatch(f"{what}: {a} and {b} differ")


def same_as(index: int, kind: ElementType | None = None) -> Rule:
    """Return the first output like an input, in another element type if given."""

    def rule(call: NodeCall) -> Sequence[Found]:
        if kind is None:
            return (call.facts.other(call.input(index)) or call.tensor(index) or call.dims(index),)
        return (Sized(kind, call.dims(index)),)

    return rule


def broadcast(*inputs: Sequence[AnySize | None] | None) -> tuple[AnySize | None, ...] | None:
    """Return the dimensions of an elementwise result under numpy broadcasting; None when a rank is unknown."""
    with_dims = [dims for dims in inputs if dims is not None]
    if len(with_dims) < len(inputs) or not with_dims:
        return None
    if len(with_dims) == 2 and with_dims[0] == with_dims[1]:
        return tuple(with_dims[0])
    rank = max(map(len, with_dims))
    columns = zip(*[(1,) * (rank - len(dims)) + tuple(dims) for dims in with_dims], strict=True)
    return tuple(map(_common_size, columns))


def _common_size(column: Sequence[AnySize | None]) -> AnySize | None:
    larger = {d for d in column if d is not None and d != 1}
    if len(larger) < 2 and None not in column:
        return next(iter(larger), 1)
    numbers = {d for d in larger if isinstance(d, int)}
    if len(numbers) > 1:
        raise SizeMismatch(f"Sizes {' and '.join(map(str, sorted(numbers)))} cannot be broadcast to each other")
    if None in column:
        return next(iter(numbers), None)
    # Something sliced to another's size fits it only if nothing, or all but 1, was cut.
    larger -= {d for d in larger if any(symbolic.is_at_most(d, other) for other in larger)}
    fixed = [d for d in larger if symbolic.is_equal(d, 1) is False]
    if fixed:  # the other dimension is equal or 1
        return min(fixed, key=lambda d: (isinstance(d, symbolic.Size), len(str(d)), str(d)))
    if len(larger) == 1:
        return larger.pop()
    # One of them is the other, or is 1.
    return symbolic.undecided("broadcast", *sorted(larger, key=str))


def swapped(dims: Dims | None, swap: bool) -> Dims | None:
    """Return the dimensions with the last two exchanged, if `swap`."""
    return (*dims[:-2], dims[-1], dims[-2]) if swap and dims is not None and len(dims) > 1 else dims


def matmul_dims(a: Sequence[AnySize] | None, b: Sequence[AnySize] | None) -> tuple[AnySize | None, ...] | None:
    """Return the dimensions of numpy.matmul of two tensors."""
    if a is None or b is None:
        return None
    if not a or not b:
        raise SizeMismatch("A factor has no dimensions")
    expect_equal(a[-1], b[-2] if len(b) > 1 else b[0], "Sizes that are summed over")
    batch = broadcast(a[:-2], b[:-2])
    if batch is None:
        return None
    rows = a[-2:-1] if len(a) > 1 else ()
    columns = b[-1:] if len(b) > 1 else ()
    return (*batch, *rows, *columns)


def divided(size: AnySize | None, by: Any) -> AnySize | None:
    """Divide a dimension by a number, where it is exact."""
    if size is None or not isinstance(by, int) or by <= 0:
        return None
    quotient = symbolic.divide(size, by)
    return quotient if quotient is not None and quotient * by == size else None


def at(dims: Sequence[AnySize | None] | None, index: int) -> AnySize | None:
    """Return one dimension, None where there is none or the rank is unknown."""
    return dims[index] if dims is not None and -len(dims) <= index < len(dims) else None


def merged(*sizes: AnySize | None) -> AnySize | None:
    """Return the plainest of several expressions of one size: a number, a formula, or None."""
    present = [size for size in sizes if size is not None]
    return next((size for size in present if isinstance(size, int)), present[0] if present else None)


def total(*sizes: AnySize | None) -> AnySize | None:
    """Return the sum of dimensions; None where one is open."""
    result: AnySize = 0
    for size in sizes:
        if size is None:
            return None
        result = result + size
    return result


def product(*sizes: AnySize | None) -> AnySize | None:
    """Return the product of dimensions, likewise."""
    result: AnySize = 1
    for size in sizes:
        if size is None:
            return None
        result = result * size
    return result


def replaced(dims: Sequence[AnySize | None], axis: int, *sizes: AnySize | None) -> tuple[AnySize | None, ...]:
    """Return the dimensions with one replaced by any number of others."""
    return (*dims[:axis], *sizes, *dims[axis + 1 :])
