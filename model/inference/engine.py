"""Type inference over the IR in topological order, into the subgraphs of nodes and the functions that they call."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from onnx_workbench.model.analysis.constants import Constants
from onnx_workbench.model.analysis.node_constants import constant_tensor, ints, number
from onnx_workbench.model.analysis.scoping import run_order
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.analysis.value_types import declared_type
from onnx_workbench.model.errors import RULE_ERRORS
from onnx_workbench.model.inference.excess import excess
from onnx_workbench.model.inference.facts import Facts
from onnx_workbench.model.inference.function_calls import Arguments, Known
from onnx_workbench.model.inference.operators import contents_of, rule_of
from onnx_workbench.model.inference.operators.node_call import (
    Found,
    NodeCall,
    Rule,
    Sized,
    SizeMismatch,
    at,
    merged,
    replaced,
)
from onnx_workbench.model.inference.operators.sequences import found_of
from onnx_workbench.model.inference.result_types import result_type, wrong_type
from onnx_workbench.model.inference.type_lattice import common
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import UNNAMED, ElementType, SequenceType, Shape, TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas import traits

_DEEPEST = 32  # functions and subgraphs within each other
_BUDGET = 200_000  # nodes of functions and of repeated trials of loops
_BETWEEN_CHECKS = 64
_LOOP_TRIALS = 3  # attempts to find loop-invariant sizes; nested loops try within attempts


@dataclass(frozen=True, slots=True)
class TypeMismatch:
    """A node that does not accept the types of its inputs, or (`is_type` False) their sizes.

    Inside a function `calls` lead there, outer ones first. Not sure where the node may never run.
    """

    node: Node
    calls: tuple[Node, ...]
    reason: str
    is_type: bool
    is_sure: bool
    types: tuple[Type | None, ...]
    is_computed: bool = False  # runtimes compute it, though the specification excludes it


Mismatches = dict[tuple[Node, tuple[Node, ...]], TypeMismatch]


@dataclass(slots=True)
class _Frame:
    """One visit of the main graph, or of the body of a called function, or of a subgraph in them."""

    facts: Facts
    attributes: Mapping[str, Attribute] = field(default_factory=dict)  # those of the call
    calls: tuple[Node, ...] = ()
    mismatches: Mismatches = field(default_factory=dict)
    depth: int = 0
    is_sure: bool = True  # not in a branch that may never be taken
    is_limited: bool = False  # its nodes count against the budget


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a call of a function returns, in terms of the symbols of its arguments, and what is wrong in it."""

    results: tuple[Known, ...] = ()
    symbols: tuple[AnySize, ...] = ()
    mismatches: Mismatches = field(default_factory=dict)


class Inference:
    """Infers the types of all values of a model. On the thread that owns the model.

    `rules` are those for operators that nobody knows, by domain and operator. Without `trusts_declared` only what holds
    in every run counts: no declared types of inputs of subgraphs, which may differ between iterations, no defaults that
    a caller may replace; and functions are learned about without the arguments of a call.
    """

    def __init__(
        self,
        model: Model,
        rules: Mapping[tuple[str, str], Rule] | None = None,
        constants: Constants | None = None,
        progress: Progress = SILENT,
        *,
        trusts_declared: bool = True,
    ) -> None:
        self.facts = Facts()
        self.mismatches: Mismatches = {}
        self._model = model
        self._rules = rules or {}
        self._constants = constants or Constants(model, progress=progress)
        self._progress = progress
        self._trusts_declared = trusts_declared
        self._functions = {function.key: function for function in model.functions}
        self._budget = _BUDGET
        self._count = 0
        self._answers: dict[Hashable, _Answer] = {}
        self._called: set[Function] = set()
        self._has_begun = False

    def run(self) -> None:
        """Compute facts about all nodes; again after changes of the model, which keeps what is known."""
        self.begin()
        self._budget = _BUDGET
        self._answers.clear()
        frame = _Frame(self.facts, mismatches=self.mismatches)
        self._learn_graph(frame, self._model.graph)
        if not self._trusts_declared:
            for function in self._model.functions:
                self._learn_graph(_Frame(self.facts), function.body)
            return
        for training in self._model.training_info:
            for graph in (training.initialization, training.algorithm):
                if graph is not None:
                    self._adopt_outer(graph)
                    self._learn_graph(frame, graph)

    def begin(self) -> None:
        """Learn about the inputs and constants of the model; for callers that learn about its nodes one by one."""
        if not self._has_begun:
            self._name_open_sizes()
            self._has_begun = True
        for value in self._model.graph.inputs:
            self.facts.seed(value, declared_type(value))
            self.facts.name_contents(value)
        self._learn_constants(self.facts, self._model.graph)

    def _name_open_sizes(self) -> None:
        """Assign symbols, ``x_d0``, to open sizes of the model inputs, so that dependent sizes can be expressed.

        Negative and `UNNAMED` ones, which some exporters write, count as open.
        """
        graph = self._model.graph
        kinds = {value: value.type for value in graph.inputs if isinstance(value.type, TensorType)}
        shapes = {value: kind.shape.dims for value, kind in kinds.items() if kind.shape is not None}
        taken = {dim for dims in shapes.values() for dim in dims if isinstance(dim, str)}
        for value, given in shapes.items():
            if self._tensor(value) is not None:
                continue
            dims = list(given)
            for axis, dim in enumerate(dims):
                if dim is None or dim in ("", UNNAMED) or (isinstance(dim, int) and dim < 0):
                    name = f"{value.name}_d{axis}"
                    while name in taken:
                        name += "_"
                    taken.add(name)
                    dims[axis] = name
            self.facts.seed(value, replace(kinds[value], shape=Shape(tuple(dims))))

    def _adopt_outer(self, graph: Graph) -> None:
        """Give the values of the main graph that a training graph uses by name their types."""
        outer = {value.name: value for value in self._model.graph.values(self._progress)}
        for value in graph.values(self._progress):
            if not value.is_defined and value.name in outer:
                self.facts.same(value, outer[value.name])

    # -- graphs --------------------------------------------------------------------------------------------------

    def _learn_graph(self, frame: _Frame, graph: Graph) -> None:
        """Learn about the nodes of a graph whose inputs are known."""
        self._learn_constants(frame.facts, graph)
        for node in run_order(graph, self._progress):
            self._count += 1
            if not self._count % _BETWEEN_CHECKS:
                self._progress.check()
            if frame.is_limited:
                self._budget -= 1
                if self._budget < 0:
                    return
            self._learn_node(frame, node)

    def _learn_constants(self, facts: Facts, graph: Graph) -> None:
        for value in self._progress.paced(graph.initializers):
            tensor = self._tensor(value)
            if tensor is not None:
                facts.learn_constant(value, tensor)
            else:
                facts.seed(value, declared_type(value))

    def _tensor(self, value: Value) -> Tensor | None:
        """Return the tensor of a constant, and with `trusts_declared` a default that a caller may replace."""
        if self._trusts_declared and isinstance(value.initializer, Tensor):
            return value.initializer
        return self._constants.tensor(value)

    def learn_node(self, node: Node) -> None:
        """Compute facts about the outputs of one node of the main graph or of a subgraph."""
        self._learn_node(_Frame(self.facts), node)

    def _learn_node(self, frame: _Frame, node: Node) -> None:
        function = self._functions.get(node.operator)
        if function is not None:
            self._call(frame, node, function)
        elif node.bodies:
            self._learn_bodies(frame, node)
        else:
            self._apply_rule(frame, node)
        for value in node.outputs:
            if value is not None:
                frame.facts.name_contents(value)

    # -- operators -----------------------------------------------------------------------------------------------

    def _apply_rule(self, frame: _Frame, node: Node) -> None:
        if frame.attributes:
            node = _resolved(node, frame.attributes)
        call = NodeCall.of(node, frame.facts)
        if any(attribute.reference for attribute in node.attributes.values()):
            _learn_open(call)
            return
        found, reason = self._constant(call), ""
        wrong = _wrong_type(call, node.inputs, ())
        if wrong:  # what it makes is anybody's guess
            self._note(frame, call, wrong, is_type=True)
            return
        if found is None:
            rule = self._rules.get((node.domain, node.op_type)) or rule_of(node.op_type, node.domain)
            try:
                found = () if rule is None else rule(call)
            except SizeMismatch as mismatch:
                found, reason = (), str(mismatch)
            except RULE_ERRORS:  # a malformed node, which checks report
                found = ()
        for index, value in enumerate(node.outputs):
            if value is not None:
                kind = result_type(call, index) if call.schema is not None else call.kind(0) if found else None
                _store(frame.facts, value, found[index] if index < len(found) else None, kind)
        if not node.domain:
            _learn_contents(call)
        wrong = _wrong_type(call, (), node.outputs)
        if wrong or reason:
            self._note(frame, call, wrong or reason, is_type=bool(wrong))
        elif not node.domain and (reason := _beyond_specification(call)):
            self._note(frame, call, reason, is_computed=True)

    def _constant(self, call: NodeCall) -> Sequence[Found] | None:
        """Learn the tensor of a Constant node; None for other nodes, and where a call gives the value."""
        node = call.node
        if node.op_type != "Constant" or node.domain or not node.outputs or node.outputs[0] is None:
            return None
        tensor = constant_tensor(node)
        if isinstance(tensor, Tensor):
            call.facts.learn_constant(node.outputs[0], tensor)
        return None if tensor is None else (None if isinstance(tensor, Tensor) else tensor.type,)

    def _note(
        self, frame: _Frame, call: NodeCall, reason: str, *, is_type: bool = False, is_computed: bool = False
    ) -> None:
        """Record why a node does not work on its inputs."""
        node = call.node
        first = next((value for value in node.outputs if value is not None), None)
        own = first.producer if first is not None and first.producer is not None else node  # not the resolved copy
        types = tuple(map(frame.facts.type_of, node.inputs))
        _add(frame.mismatches, TypeMismatch(own, frame.calls, reason, is_type, frame.is_sure, types, is_computed))

    # -- functions -----------------------------------------------------------------------------------------------

    def _call(self, frame: _Frame, node: Node, function: Function) -> None:
        """Infer inside a function: facts about its values are those of its first call; each call gets its own outputs.

        Calls with equal argument types and attributes are examined once.
        """
        if frame.depth >= _DEEPEST or self._budget < 0:
            return
        attributes = _resolved(node, frame.attributes).attributes
        arguments = Arguments(frame.facts, node.inputs[: len(function.body.inputs)])
        key = function, arguments.key, tuple((name, a.kind, a.value, a.reference) for name, a in attributes.items())
        if key not in self._answers:
            self._answers[key] = _Answer()  # for a call within itself
            self._answers[key] = self._examine(frame, node, function, arguments, attributes)
        answer = self._answers[key]
        for mismatch in answer.mismatches.values():  # told of the first call alone, which may be less sure
            _add(frame.mismatches, mismatch if frame.is_sure else replace(mismatch, is_sure=False))
        if answer.results:
            arguments.store(node.outputs, answer.results, answer.symbols)

    def _examine(
        self, frame: _Frame, node: Node, function: Function, arguments: Arguments, given: Mapping[str, Attribute]
    ) -> _Answer:
        is_first = self._trusts_declared and function not in self._called
        self._called.add(function)
        defaults = {attribute.name: attribute for attribute in function.attribute_defaults}
        calls = (*frame.calls, node)
        inner = _Frame(Facts(frame.facts), {**defaults, **given}, calls, depth=frame.depth + 1, is_limited=True)
        arguments.bind(inner.facts, function.body.inputs)
        self._learn_graph(inner, function.body)
        if is_first:
            self.facts.adopt(inner.facts)
        results = tuple(Known.of(inner.facts, value) for value in function.body.outputs)
        return _Answer(results, arguments.symbols, inner.mismatches)

    # -- subgraphs -----------------------------------------------------------------------------------------------

    def _learn_bodies(self, frame: _Frame, node: Node) -> None:
        if frame.depth >= _DEEPEST:
            return
        results: Sequence[Found] = ()
        try:
            match node.op_type if not node.domain else "":
                case "If":
                    results = self._learn_branches(frame, node)
                case "Loop":
                    results = self._learn_loop(frame, node, node.bodies[0])
                case "Scan":
                    results = self._learn_scan(frame, node, node.bodies[0])
                case "SequenceMap":
                    results = self._learn_map(frame, node, node.bodies[0])
                case _:
                    for body in node.bodies:
                        self._learn_body(frame, body, ())
                    self._apply_rule(frame, node)
        except RULE_ERRORS:  # a malformed node, which checks report
            return
        for value, found in zip(node.outputs, results, strict=False):
            if value is not None:
                _store(frame.facts, value, found)

    def _learn_body(self, frame: _Frame, body: Graph, formal: Sequence[Found], **changes: Any) -> list[Found]:
        """Infer inside a subgraph with these types of its inputs; return those of its outputs."""
        for index, value in enumerate(body.inputs):
            _store(frame.facts, value, formal[index] if index < len(formal) else None)
            if self._trusts_declared:
                frame.facts.seed(value, value.type)
            frame.facts.name_contents(value)
        self._learn_graph(replace(frame, depth=frame.depth + 1, **changes), body)
        return [_known(frame.facts, value) for value in body.outputs]

    def _learn_branches(self, frame: _Frame, node: Node) -> Sequence[Found]:
        named = {name: a.value for name, a in node.attributes.items() if isinstance(a.value, Graph)}
        results = {name: self._learn_body(frame, body, (), is_sure=False) for name, body in named.items()}
        is_true = NodeCall.of(node, frame.facts).scalar(0)
        if isinstance(is_true, int) and len(results) == 2:
            chosen = "then_branch" if is_true else "else_branch"
            for value, inner in zip(node.outputs, named[chosen].outputs, strict=False):
                if value is not None and inner in frame.facts.contents:
                    frame.facts.set_contents(value, frame.facts.contents[inner])
            return results[chosen]
        return list(map(_joined, *results.values())) if len(results) == 2 else ()

    def _learn_loop(self, frame: _Frame, node: Node, body: Graph) -> Sequence[Found]:
        """Infer a Loop: carried values keep the sizes that are invariant over an iteration."""
        carried = [_known(frame.facts, value) for value in node.inputs[2:]]
        turn = (Sized(ElementType.INT64, ()), Sized(ElementType.BOOL, ()))
        before, called = dict(frame.mismatches), set(self._called)
        for trial in range(_LOOP_TRIALS + 1):
            if trial:
                self._take_back(frame, body, before, called)
            results = self._learn_body(
                frame, body, (*turn, *carried), is_limited=frame.is_limited or trial > 0
            )  # fmt: skip
            kept = list(map(_joined, carried, results[1:]))
            if kept == carried[: len(kept)] or trial == _LOOP_TRIALS:
                break
            carried = [_without_sizes(found) for found in kept] if trial == _LOOP_TRIALS - 1 else kept
        scans = (_with_axis(found, 0, None) for found in results[1 + len(carried) :])
        return (*kept, *scans)

    def _take_back(self, frame: _Frame, body: Graph, mismatches: Mismatches, called: set[Function]) -> None:
        """Forget what followed from wrong types of the inputs of a loop's body."""
        for graph in body.walk():
            frame.facts.forget(graph.values())
        for function in self._called - called:
            for graph in function.body.walk():
                self.facts.forget(graph.values())
        self._called = called.copy()
        frame.mismatches.clear()
        frame.mismatches.update(mismatches)

    def _learn_scan(self, frame: _Frame, node: Node, body: Graph) -> Sequence[Found]:
        actual = [_known(frame.facts, value) for value in node.inputs]
        is_batched = len(actual) == len(body.inputs) + 1  # in version 8: lengths first, and a batch everywhere
        batch = merged(*(_size_of(found, 0) for found in actual[1:])) if is_batched else None
        if is_batched:
            actual = [_without_axis(found, 0) for found in actual[1:]]
        states = len(actual) - number(node, "num_scan_inputs")
        axes = _scan_axes(node, "scan_input_axes", len(actual) - states)
        formal = [*actual[:states], *map(_without_axis, actual[states:], axes)]
        results = self._learn_body(frame, body, formal)
        length = merged(*map(_size_of, actual[states:], axes))
        axes = _scan_axes(node, "scan_output_axes", len(results) - states)
        scanned = zip(results[states:], axes, strict=True)
        kept = map(_plainer, actual[:states], results)  # a state keeps its sizes
        results_of_steps = [*kept, *(_with_axis(found, axis, length) for found, axis in scanned)]
        return [_with_axis(found, 0, batch) for found in results_of_steps] if is_batched else results_of_steps

    def _learn_map(self, frame: _Frame, node: Node, body: Graph) -> Sequence[Found]:
        kinds = [frame.facts.other(value) for value in node.inputs]
        formal = [
            found_of(frame.facts, kind.element) if isinstance(kind, SequenceType) else _known(frame.facts, value)
            for kind, value in zip(kinds, node.inputs, strict=True)
        ]
        self._learn_body(frame, body, formal)
        elements = map(frame.facts.type_of, body.outputs)
        return [None if element is None else SequenceType(element) for element in elements]


def _add(mismatches: Mismatches, found: TypeMismatch) -> None:
    """Record a mismatch, unless it is known and as sure."""
    key = found.node, found.calls
    if key not in mismatches or not mismatches[key].is_sure:
        mismatches[key] = found


def _wrong_type(call: NodeCall, inputs: Sequence[Value | None], outputs: Sequence[Value | None]) -> str:
    is_precise = call.schema is not None and call.schema.origin == "onnx"
    return "" if call.schema is None or not is_precise else wrong_type(call.facts, call.schema, inputs, outputs)


def _learn_open(call: NodeCall) -> None:
    """Learn about a node with attributes that the call of its function would give, of which nothing is known."""
    node = call.node
    first = node.outputs[0] if node.outputs else None
    if node.op_type == "Constant" and not node.domain and first is not None:
        for name, kind in (("value_float", ElementType.FLOAT), ("value_int", ElementType.INT64)):
            for given in {name, f"{name}s"}.intersection(node.attributes):
                _store(call.facts, first, Sized(kind, (None,) if given.endswith("s") else ()))
    is_given = traits.of(node).type_attribute in node.attributes
    for index, value in enumerate(node.outputs):
        if value is not None and (index or not is_given):
            _store(call.facts, value, None, result_type(call, index))


def _beyond_specification(call: NodeCall) -> str:
    try:
        return excess(call)
    except RULE_ERRORS:
        return ""


def _learn_contents(call: NodeCall) -> None:
    try:
        found = contents_of(call)
    except RULE_ERRORS:
        return
    for value, contents in zip(call.node.outputs, found, strict=False):
        if value is not None and contents is not None:
            call.facts.set_contents(value, contents)


def _resolved(node: Node, given: Mapping[str, Attribute]) -> Node:
    """Return a node of a function with attribute references resolved; itself where it has none."""
    referred = {name: a for name, a in node.attributes.items() if a.reference in given}
    if not referred:
        return node
    attributes = {**node.attributes, **{n: replace(given[a.reference], name=n) for n, a in referred.items()}}
    resolved = Node(node.op_type, node.inputs, node.outputs, domain=node.domain, attributes=attributes)
    resolved.graph = node.graph
    return resolved


# -- results of rules -------------------------------------------------------------------------------------------


def _store(facts: Facts, value: Value, found: Found, otherwise: ElementType | Type | None = None) -> None:
    """Add what a rule found about a value; `otherwise` is the type that the schema gives."""
    if isinstance(found, Sized):
        facts.set_element_type(value, found.element_type)
        found = found.dims
    if isinstance(found, Sequence):
        facts.set_dims(value, found)
    elif found is not None:
        facts.seed(value, found)
        return
    if isinstance(otherwise, ElementType):
        facts.set_element_type(value, otherwise)
    elif otherwise is not None and facts.element_type(value) is None:
        facts.seed(value, otherwise)


def _known(facts: Facts, value: Value | None) -> Found:
    other = facts.other(value)
    return Sized(facts.element_type(value), facts.dims(value)) if other is None else other


def _joined(a: Found, b: Found) -> Found:
    """Return what two values have in common."""
    if not isinstance(a, Sized) or not isinstance(b, Sized):
        return a if a == b else common(a, b) if _is_type(a) and _is_type(b) else None
    kind = a.element_type if a.element_type is b.element_type else None
    if a.dims is None or b.dims is None or len(a.dims) != len(b.dims):
        return Sized(kind, None)
    return Sized(kind, tuple(x if x == y else None for x, y in zip(a.dims, b.dims, strict=True)))


def _plainer(a: Found, b: Found) -> Found:
    """Return one of two values of one type, with numbers for sizes where either has them."""
    if not isinstance(a, Sized) or not isinstance(b, Sized):
        return b
    if a.dims is None or b.dims is None or len(a.dims) != len(b.dims):
        return b
    return Sized(b.element_type or a.element_type, tuple(map(merged, b.dims, a.dims)))


def _is_type(found: Found) -> TypeGuard[Type]:
    return found is not None and not isinstance(found, (Sized, Sequence))


def _without_sizes(found: Found) -> Found:
    """Return a tensor without sizes: a loop may change those of carried values, rarely the rank."""
    if not isinstance(found, Sized) or found.dims is None:
        return found
    return Sized(found.element_type, (None,) * len(found.dims))


def _without_axis(found: Found, axis: int) -> Found:
    if isinstance(found, Sized) and found.dims is not None and -len(found.dims) <= axis < len(found.dims):
        return Sized(found.element_type, replaced(found.dims, axis % len(found.dims)))
    return found


def _with_axis(found: Found, axis: int, size: AnySize | None) -> Found:
    if not isinstance(found, Sized) or found.dims is None:
        return found
    axis = axis if axis >= 0 else len(found.dims) + 1 + axis
    return Sized(found.element_type, (*found.dims[:axis], size, *found.dims[axis:]))


def _size_of(found: Found, axis: int) -> AnySize | None:
    return at(found.dims, axis) if isinstance(found, Sized) else None


def _scan_axes(node: Node, name: str, count: int) -> list[int]:
    """Return the scan axes of inputs or outputs: 0 by default."""
    return ([*(ints(node, name) or ())] + [0] * count)[:count]
