"""Make fixed input sizes symbolic (dynamic axes), and propagate the symbols through the model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.node_constants import number
from onnx_workbench.model.analysis.scoping import enclosing, run_order, unique_name
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.analysis.topology import downstream, upstream
from onnx_workbench.model.analysis.value_types import TypeOf, declared_type, dims_of
from onnx_workbench.model.convert.dimensions import constant_shape, set_constant_shape, symbols
from onnx_workbench.model.convert.report import ConversionReport
from onnx_workbench.model.edits.interface import check_dimension, set_dimension, substitute_dimensions
from onnx_workbench.model.edits.values import set_type
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.inference import custom_rules
from onnx_workbench.model.inference.engine import Inference
from onnx_workbench.model.inference.facts import Dims
from onnx_workbench.model.inference.operators.node_call import NodeCall
from onnx_workbench.model.inference.operators.reshaping import reshaped
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import UNNAMED, Dimension, Shape, TensorType
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.schemas.defaults import attribute
from onnx_workbench.model.simplify.rules.shape_computations import reshape_entries
from onnx_workbench.model.text.formatting import plural

Place = tuple[str, int]  # name of an input, and axis


def free_dimensions(
    edit: Transaction, graph: Graph, wanted: Mapping[Place, str], type_of: TypeOf = declared_type
) -> ConversionReport:
    """Make dimensions of a graph's inputs symbolic; declared types and constant shapes follow.

    Each Reshape and Expand to a constant shape gets one that is the same for the old sizes; the report warns where
    there is none. `type_of` gives types as they are before the edit, inferred where available. ModelError for an input
    or axis that does not exist, and for one symbol for different sizes.
    """
    freeing = _Freeing(edit, graph, type_of)
    if renamed := freeing.name_inputs(wanted):
        listed = ", ".join(f"{name} (was {'?' if was is None else was})" for name, was in renamed.items())
        freeing.report.changed(f"sizes made dynamic: {listed}", graph)
    freeing.propagate_sizes()
    freeing.declare()
    return freeing.report


def batch_places(inputs: Iterable[Value], type_of: TypeOf = declared_type) -> list[Place]:
    """Return the first axis of each of these inputs that has one."""
    return [(v.name, 0) for v in inputs if dims_of(v, type_of)]


def change_batch(
    edit: Transaction, graph: Graph, batch: Dimension, type_of: TypeOf = declared_type
) -> ConversionReport:
    """Set the first dimension of all inputs of a graph to another number or symbol, None for any number.

    It is made free, with all that follows from it, and then replaced. `type_of` as for `free_dimensions`.
    """
    check_dimension(batch, graph)
    first = {v.name: dims[0] for v in graph.required_inputs if (dims := dims_of(v, type_of)) and dims[0] != batch}
    if not first:
        return ConversionReport()
    taken = set() if isinstance(batch, str) else set(symbols(edit.model))
    names: dict[Dimension, str] = {}  # a symbol for each former size
    for size in first.values():
        if size not in names:
            names[size] = unique_name(batch if isinstance(batch, str) else "batch", taken)
            taken.add(names[size])
    freeing = _Freeing(edit, graph, type_of)
    freeing.name_inputs({(name, 0): names[size] for name, size in first.items()})
    listed = ", ".join("?" if size is None else str(size) for size in names)
    to = "any number" if batch is None else batch
    freeing.report.changed(f"the first size of {plural(len(first), 'input')} is {to} (was {listed})", graph)
    freeing.propagate_sizes()
    freeing.declare()
    substitute_dimensions(edit, graph, dict.fromkeys(names.values(), batch))
    return freeing.report


def inputs_of(graph: Graph, among: Collection[Node] | None = None) -> list[Value]:
    """Return the inputs of a graph that are fed; with `among` those that these nodes depend on."""
    fed = graph.required_inputs
    if among is None:
        return fed
    around = (level.owner for node in among if node.graph is not None for level in enclosing(node.graph))
    reached = upstream([*among, *(owner for owner in around if isinstance(owner, Node))])
    return [v for v in fed if v in reached]


class _Freeing:
    def __init__(self, edit: Transaction, graph: Graph, type_of: TypeOf) -> None:
        self.report = ConversionReport()
        self.numbers: dict[str, int] = {}  # by symbol, the former size
        self._names: set[str] = set()
        self._renamed: dict[str, str] = {}
        self._edit, self._graph = edit, graph
        self._old = {v: dims for v in graph.values() if (dims := dims_of(v, type_of)) is not None}
        self._freed: list[Value] = []
        self._inference = Inference(edit.model, custom_rules.rules({}), trusts_declared=False)
        self._facts = self._inference.facts

    def name_inputs(self, wanted: Mapping[Place, str]) -> dict[str, Dimension]:
        """Give sizes of inputs their symbols; returns the symbols that are new, with the former size."""
        inputs = {v.name: v for v in self._graph.required_inputs}
        renamed: dict[str, Dimension] = {}
        if not wanted:
            raise ModelError("No size can be dynamic", "No input has a dimension.", self._graph)
        for (name, axis), symbol in wanted.items():
            value = inputs.get(name)
            if value is None:
                raise ModelError(
                    f"There is no input {name}", f"The inputs are {', '.join(list(inputs)[:10])}.", self._graph
                )
            check_dimension(symbol, value)
            dims = self._old.get(value, ())
            number = dims[axis] if -len(dims) <= axis < len(dims) else None
            if isinstance(number, str) and number not in (symbol, UNNAMED):
                self._renamed[number] = symbol
            elif isinstance(number, int) and self.numbers.setdefault(symbol, number) != number:
                sizes_said = f"{name} has {number} on axis {axis}, another input {self.numbers[symbol]}"
                raise ModelError(f"{symbol} cannot be several sizes", f"{sizes_said}.", value)
            set_dimension(self._edit, value, axis, symbol)
            self._names.add(symbol)
            self._freed.append(value)
            if number != symbol:
                renamed.setdefault(symbol, number)
        substitute_dimensions(self._edit, self._graph, self._renamed)
        return renamed

    # -- propagation -----------------------------------------------------------------------------------------------

    def propagate_sizes(self) -> None:
        """Go through the nodes in topological order, adapt constant shapes, and compute the new output sizes."""
        facts = self._facts
        self._inference.begin()
        changing = downstream([*self._freed])
        for node in run_order(self._graph):
            opset = self._graph.opset_imports.get(node.domain, 1)
            if opset >= 5 and (entries := self._fitting(node)) is not None:
                set_constant_shape(self._edit, node, entries)
                shape = node.inputs[1]
                if shape is not None and isinstance(shape.initializer, Tensor):
                    facts.learn_constant(shape, shape.initializer)
                self.report.changed(f"a {node.op_type} accepts any size", node)
            self._inference.learn_node(node)
            for value in node.outputs:
                if value is not None and value in self._old:
                    self._keep_old_sizes(value, is_changing=value in changing)
            self._warn_of_fixed(node)

    def _warn_of_fixed(self, node: Node) -> None:
        """Warn where a symbolic dimension meets a fixed one, such as that of a weight, and thus cannot vary."""
        shapes = [dims for value in node.inputs if (dims := self._facts.dims(value)) is not None]
        if node.domain or len(shapes) < 2:
            return
        meeting: list[tuple[AnySize, ...]] = []
        if traits.of(node).broadcasts:
            meeting = list(zip_longest(*(reversed(dims) for dims in shapes), fillvalue=1))
        elif node.op_type == "MatMul" and len(shapes[0]) and len(shapes[1]):
            meeting = [(shapes[0][-1], shapes[1][-2 if len(shapes[1]) > 1 else -1])]
        elif node.op_type == "Concat" and len({len(dims) for dims in shapes}) == 1:
            along = number(node, "axis", 1) % max(len(shapes[0]), 1)
            meeting = [column for axis, column in enumerate(zip(*shapes, strict=True)) if axis != along]
        elif node.op_type in ("RNN", "GRU", "LSTM"):
            states = [dims[1] for v in node.inputs[5:7] if (dims := self._facts.dims(v)) is not None and len(dims) == 3]
            self._expect_equal(node, [shapes[0][1], *states] if len(shapes[0]) == 3 else [])
        elif node.op_type == "Resize" and (wanted := NodeCall.of(node, self._facts).numbers(3)):
            for have, size in zip(shapes[0], wanted, strict=False):
                self._expect_equal(node, [have, size])
        for column in meeting:
            fits_any = 1 if traits.of(node).broadcasts else None
            self._expect_equal(node, [size for size in column if size != fits_any])

    def _expect_equal(self, node: Node, sizes: Sequence[AnySize]) -> None:
        """Warn if one of some sizes, which must be equal, is free and another a number."""
        numbers = [size for size in sizes if isinstance(size, int)]
        free = [size for size in map(str, sizes) if size in self.numbers]
        if numbers and free:
            self.report.warn(f"{node.op_type} needs {free[0]} to be {numbers[0]}", node)

    def _keep_old_sizes(self, value: Value, *, is_changing: bool) -> None:
        """Keep the former sizes of a value that does not depend on what is freed, and the rank of others."""
        old = self._old[value]
        renamed = [self._renamed.get(dim, dim) if isinstance(dim, str) else dim for dim in old]
        self._facts.set_dims(value, [None if is_changing else self._facts.size(dim) for dim in renamed])

    def _fitting(self, node: Node) -> list[int] | None:
        """Return another constant shape for a Reshape or Expand; None if the present one is still right."""
        shape = constant_shape(node)
        source, target = node.inputs[0] if node.inputs else None, node.outputs[0] if node.outputs else None
        if shape is None or source is None or target is None:
            return None
        have, old = self._facts.dims(source), self._old.get(source)
        if have is None or old is None or len(have) != len(old) or all(isinstance(size, int) for size in have):
            return None
        given = [int(size) for size in shape]
        if node.op_type == "Expand":
            return _expanded(have, old, given)
        allow_zero = bool(attribute(node, "allowzero"))
        wanted = self._reshaped(have, old, self._old.get(target))
        if wanted is not None and reshaped(have, given, allow_zero=allow_zero) == wanted:
            return None
        entries = None if wanted is None else reshape_entries(have, list(wanted), allow_zero=allow_zero)
        if entries is None:
            if not {0, -1}.issuperset(given) and not set(given).isdisjoint(self.numbers.values()):
                self.report.warn("A Reshape contains sizes that are now dynamic; check its shape", node)
            return None
        return list(entries)

    def _reshaped(self, have: Dims, old: Sequence[Dimension], out: Sequence[Dimension] | None) -> Dims | None:
        """Return the new output shape, factor by factor: parts with equal element counts correspond."""
        before, after = [d for d in old if isinstance(d, int)], [d for d in out or () if isinstance(d, int)]
        if out is None or len(before) < len(old) or len(after) < len(out) or 0 in (*before, *after):
            return None
        result: list[AnySize] = []
        for first, last in _parts(before, after):
            solved = self._solved(symbolic.product(have[first]), after[last])
            if solved is None:
                return None
            result.extend(solved)
        return tuple(result)

    def _solved(self, whole: AnySize, numbers: Sequence[int]) -> list[AnySize] | None:
        """Return sizes that were these numbers and multiply to the whole: symbols where possible, else numbers."""
        found: list[AnySize] = list(numbers)
        for index, former in enumerate(numbers):
            for name in (n for n, was in self.numbers.items() if was == former):
                trial = [*found[:index], symbolic.symbol(name), *found[index + 1 :]]
                if _divides(whole, symbolic.product(tuple(t for t in trial if not isinstance(t, int)))):
                    found = trial
                    break
            if symbolic.product(tuple(found)) == whole:
                return found
        if symbolic.product(tuple(found)) == whole:
            return found
        for index in range(len(numbers)):
            rest = symbolic.product(tuple(n for other, n in enumerate(numbers) if other != index))
            if _divides(whole, rest) and (size := symbolic.divide(whole, rest)) is not None:
                return [*numbers[:index], size, *numbers[index + 1 :]]
        return None

    # -- declared types ----------------------------------------------------------------------------------------------

    def declare(self) -> None:
        """Update declared types; numbers that depend on a symbolic dimension are removed."""
        graph = self._graph
        inner = chain.from_iterable(level.values() for level in graph.walk() if level is not graph)
        declared = dict.fromkeys((*graph.declared, *graph.outputs, *inner))
        for value in declared:
            kind = value.type
            if value in graph.inputs or not isinstance(kind, TensorType) or kind.shape is None:
                continue
            found = self._facts.dims(value) if value.graph is graph else None
            known: Sequence[AnySize | None] = found if found is not None else [None] * kind.shape.rank
            if len(known) == kind.shape.rank:
                dims = tuple(self._declared(a, b) for a, b in zip(kind.shape.dims, known, strict=True))
                if dims != kind.shape.dims:
                    set_type(self._edit, value, replace(kind, shape=Shape(dims, kind.shape.denotations)))

    def _declared(self, before: Dimension, size: AnySize | None) -> Dimension:
        if size is None:  # its dependencies are unknown
            return None if before in self.numbers.values() else before
        is_open = before in (None, UNNAMED) or (isinstance(before, int) and before < 0)
        if is_open and str(size) in self._names:
            return str(size)
        if isinstance(size, int) or not isinstance(before, int):
            return before
        return str(size) if str(size) in self.numbers else None


def _expanded(have: Dims, old: Sequence[Dimension], given: list[int]) -> list[int] | None:
    """Replace sizes that only repeat the input's by 1."""
    offset = len(have) - len(given)
    entries = [
        1 if index + offset >= 0 and not isinstance(have[index + offset], int) and old[index + offset] == size else size
        for index, size in enumerate(given)
    ]
    return entries if entries != given else None


def _parts(before: Sequence[int], after: Sequence[int]) -> list[tuple[slice, slice]]:
    """Factor two shapes with equal element counts into the smallest parts with equal element counts."""
    parts, i, j = [], 0, 0
    while i < len(before) or j < len(after):
        first, second = i, j
        left = right = 1
        while True:
            if left <= right and i < len(before) and (left < right or i == first):
                left *= before[i]
                i += 1
            elif j < len(after) and (right < left or j == second):
                right *= after[j]
                j += 1
            else:
                break
        parts.append((slice(first, i), slice(second, j)))
    return parts


def _divides(whole: AnySize, part: AnySize) -> bool:
    left = symbolic.divide(whole, part)
    return left is not None and left * part == whole
