"""Lowering of a snapshot to a plan: values become slots, nodes become steps, functions are inlined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any, NamedTuple

from onnx_workbench.exec.engine.operations import AROUND, NO_ENVIRONMENT, Environment, Library, Operation, resolve
from onnx_workbench.exec.engine.plan import BodyPlan, Plan, PlanStep
from onnx_workbench.exec.engine.snapshot import (
    ABSENT,
    FunctionKey,
    FunctionSnapshot,
    GraphSnapshot,
    ModelSnapshot,
    NodeSnapshot,
)
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.results.slot_map import NONE_SLOT, Path
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.model.analysis.call_graph import expanded_sizes
from onnx_workbench.model.schemas import registry as schemas
from onnx_workbench.model.schemas import traits

#: Limit for the steps that calls of functions expand to, also in bodies; calls may nest. As many take 500 MB.
MAX_EXPANDED = 200_000
MAX_CALL_DEPTH = 100

#: Nodes between two checks of the limits of the run that is planned, and between two marks.
_INTERVAL = 64


def compile_model(
    snapshot: ModelSnapshot,
    library: Library,
    *,
    seed: int = 0,
    fed: frozenset[int] = frozenset(),
    before: Compiler | None = None,
) -> tuple[Plan, Compiler]:
    """Return the plan of a model's graph, and the compiler that has made it. Checks this thread's limits.

    `fed` are initializers replaced by inputs. Of what the compiler `before` compiled with the same library, only what
    follows the first node that is different now is compiled again.
    """
    library.use(snapshot.tensors)
    compiler = Compiler(library, snapshot.functions, snapshot.names, seed, snapshot.ir_version)
    return compiler.root(snapshot.graph, snapshot.opset_imports, fed, before=before), compiler


@dataclass(slots=True, eq=False)
class LoweringScope:
    """The slots of the values of one graph, or of one call of a function."""

    path: Path
    environment: Environment
    imports: Mapping[str, int]
    context: Any  # identifies functions and opsets, on which nodes with bodies depend
    calls: tuple[int, ...] = ()  # ordinals of the nodes of the path
    slots: dict[int, int] = field(default_factory=lambda: {ABSENT: NONE_SLOT})


@dataclass(slots=True)
class _Extent:
    """Number of nodes within calls of functions in a plan and the plans of its bodies."""

    called: int = 0  # so far
    expected: int = 0  # that all calls expand to


class Mark(NamedTuple):
    """What a compiler had collected before the node of the main graph with index `nodes`: see Compiler._collected."""

    nodes: int
    size: int
    called: int
    counts: tuple[int, ...]


class Compiler:
    """Compiles one graph: collects its slots and steps, then makes the Plan.

    What it collects only grows, so the compiler of the model after an edit can take over what the one before had
    collected before the first node that is different: see Mark.
    """

    def __init__(
        self,
        library: Library,
        functions: Mapping[FunctionKey, FunctionSnapshot],
        names: Mapping[int, str],
        seed: int,
        ir_version: int,
    ) -> None:
        self.library = library
        self.functions = functions
        self.names = names
        self.seed = seed
        self.ir_version = ir_version
        self.steps: list[PlanStep] = []
        self.size = 1
        self.constants: dict[int, int] = {}  # as in Plan
        self.tokens: dict[int, int] = {NONE_SLOT: 0}
        self.varying: dict[int, int] = {}  # slot → mask of the inputs of the graph that its content depends on
        self.undefined: dict[int, int] = {}
        self.scopes: list[LoweringScope] = []
        self.bodied: list[int] = []
        self.notes: list[str] = []
        self._depth: list[FunctionKey] = []
        self._extent = _Extent()
        self._assumed: set[str] = set()
        self._repeats = False  # the graph may run several times in a run, with different random numbers each time
        self._key: Any = None  # what all steps depend on
        self._graph: GraphSnapshot | None = None
        self._marks: list[Mark] = []
        self._begin = 0  # the first node of the main graph that is not taken over

    # -- graphs ----------------------------------------------------------------------------------------------

    def root(
        self,
        graph: GraphSnapshot,
        imports: Mapping[str, int],
        fed: frozenset[int],
        before: Compiler | None = None,
    ) -> Plan:
        """Return the plan of a graph that is not a body; `before` may have compiled parts of it."""
        self._extent.expected = _expanded_steps(graph, self.functions)
        context = tuple(f.uid for f in self.functions.values()), tuple(imports.items())
        scope = LoweringScope((), NO_ENVIRONMENT, imports, context)
        initializers = [value for value, _ in graph.initializers]
        self._key, self._graph = (context, self.seed, self.ir_version, fed, graph.inputs, initializers), graph
        if before is not None and before._key == self._key:
            self._take_over(before, graph, scope)
        return self.finish(graph, scope, fed)

    def _take_over(self, before: Compiler, graph: GraphSnapshot, scope: LoweringScope) -> None:
        """Take over what `before` collected up to the last mark before the first node that is different now."""
        old = before._graph
        assert old is not None
        pairs = zip(old.initializers, graph.initializers, strict=True)
        changed = {value for (_, was), (value, tensor) in pairs if was != tensor}
        same = 0
        for was, node in zip(old.nodes, graph.nodes, strict=False):
            if was.uid != node.uid or (changed and not changed.isdisjoint(self._needs(node))):
                break
            same += 1
        self._marks = [mark for mark in before._marks if mark.nodes <= same]
        if not self._marks:
            return
        mark = self._marks.pop()  # set again at that node
        self._begin, self.size, self._extent.called = mark.nodes, mark.size, mark.called
        taken = map(_beginning, before._collected(before.scopes[0]), mark.counts)
        self.steps, self.bodied, self.notes, scopes, self.constants, self.tokens, self.varying, scope.slots = taken
        self.scopes = scopes[1:]

    def _collected(self, scope: LoweringScope) -> tuple[Any, ...]:
        """Return the lists and dicts that grow with the nodes of the main graph, whose scope is given."""
        lists = self.steps, self.bodied, self.notes, self.scopes
        return *lists, self.constants, self.tokens, self.varying, scope.slots

    def body(self, attribute: str, graph: GraphSnapshot, scope: LoweringScope, captured: Mapping[int, int]) -> BodyPlan:
        """Return the plan of a body; `captured` are the values it reads from outer scopes, and their slots there."""
        inner = Compiler(self.library, self.functions, self.names, self.seed, self.ir_version)
        inner._depth, inner._extent, inner._repeats = self._depth, self._extent, True
        captures = []
        for value, slot in captured.items():
            own = inner._slot(scope, value)
            captures.append((slot, own))
            if slot in self.tokens and slot not in self.varying:
                inner.tokens[own] = self.tokens[slot]
            if slot in self.undefined:
                inner.undefined[own] = value
        changing = [own for _, own in captures if own not in inner.tokens]
        plan = inner.finish(graph, scope, frozenset(graph.inputs), changing)
        self.notes += plan.notes
        return BodyPlan(
            attribute, plan, tuple(captures),
            tuple(map(plan.name, graph.inputs)), tuple(map(plan.name, graph.outputs)),
            graph.input_types, graph.output_types,
        )  # fmt: skip

    def finish(
        self, graph: GraphSnapshot, scope: LoweringScope, fed: frozenset[int], changing: Sequence[int] = ()
    ) -> Plan:
        """Compile a graph in a scope that has the captured values; `changing` are the non-constant captured slots."""
        self.scopes.insert(0, scope)
        inputs = tuple(self._slot(scope, v) for v in graph.inputs)
        for value, tensor in graph.initializers:
            if value not in fed:
                self._constant(self._slot(scope, value), tensor)
        if not self._repeats:
            self._number_inputs(graph, scope, fed)
        self._nodes(graph, scope)
        outputs = tuple(self._read(scope, v) for v in graph.outputs)
        steps = tuple(self.steps)
        return Plan(
            self.library, steps, self.size, inputs, outputs, self.constants, self.tokens, self.undefined,
            slots={(s.path, value): slot for s in self.scopes for value, slot in s.slots.items() if value != ABSENT},
            producers={slot: step.index for step in steps for slot in step.outs if slot},
            bodied=tuple(self.bodied),
            input_bits={s: self.varying[s] for s in (*inputs, *map(scope.slots.get, fed)) if s in self.varying},
            varying=(*inputs, *changing), names=self.names, notes=tuple(dict.fromkeys(self.notes)),
        )  # fmt: skip

    def _number_inputs(self, graph: GraphSnapshot, scope: LoweringScope, fed: frozenset[int]) -> None:
        """Give the inputs of the main graph, and initializers that are fed, tokens and bits."""
        for value in (*graph.inputs, *fed):
            slot = self._slot(scope, value)
            if slot not in self.constants:
                self.tokens[slot] = self.library.token(("input", value))
                self.varying[slot] = self.library.input_bit(value)

    def _slot(self, scope: LoweringScope, value: int) -> int:
        slot = scope.slots.get(value)
        if slot is None:
            slot = scope.slots[value] = self.size
            self.size += 1
        return slot

    def _read(self, scope: LoweringScope, value: int) -> int:
        slot = scope.slots.get(value)
        if slot is None:
            slot = self._slot(scope, value)
            self.undefined[slot] = value
        return slot

    def _constant(self, slot: int, tensor: int) -> None:
        self.constants[slot] = tensor
        self.tokens[slot] = self.library.token(("tensor", tensor))

    # -- nodes -----------------------------------------------------------------------------------------------

    def _nodes(self, graph: GraphSnapshot, scope: LoweringScope) -> None:
        """Add the steps of the nodes in topological order: that of the file as far as possible."""
        self._extent.called += len(graph.nodes) if self._depth else 0
        nodes, is_defined, is_main = graph.nodes, scope.slots.__contains__, graph is self._graph
        begin = self._begin if is_main else 0
        for index, node in enumerate(nodes[begin:], begin):
            if not index % _INTERVAL:
                checkpoint()
                if is_main and not self.undefined:
                    counts = tuple(map(len, self._collected(scope)))
                    self._marks.append(Mark(index, self.size, self._extent.called, counts))
            if not all(map(is_defined, self._needs(node) if node.attributes else node.inputs)):
                break
            self.node(node, scope)
        else:
            return
        ordered, cyclic = self._sort(nodes[index:])
        for node in ordered:
            self.node(node, scope)
        if cyclic:
            text = " → ".join(n.title for n in [*cyclic[0], cyclic[0][0]])
            for node in cyclic[1]:
                self._add_failing(node, scope, f"it is part of, or needs, a cycle of nodes: {text}")

    def _needs(self, node: NodeSnapshot) -> Sequence[int]:
        bodies = node.bodies
        if not bodies:
            return node.inputs
        return [*node.inputs, *(v for body in bodies for v in self.library.free_values(body))]

    def _sort(
        self, nodes: Sequence[NodeSnapshot]
    ) -> tuple[list[NodeSnapshot], tuple[list[NodeSnapshot], list[NodeSnapshot]] | None]:
        """Return the nodes in topological order, and a cycle with the nodes left, or None."""
        producer = {v: i for i, node in enumerate(nodes) for v in node.outputs if v != ABSENT}
        needs = [{producer[v] for v in self._needs(node) if v in producer} for node in nodes]
        users: list[list[int]] = [[] for _ in nodes]
        for index, sources in enumerate(needs):
            for source in sources:
                users[source].append(index)
        missing = [len(sources) for sources in needs]
        ready = [i for i, count in enumerate(missing) if not count]
        heapify(ready)
        order = []
        while ready:
            checkpoint()
            index = heappop(ready)
            order.append(nodes[index])
            for user in users[index]:
                missing[user] -= 1
                if not missing[user]:
                    heappush(ready, user)
        left = {i for i, count in enumerate(missing) if count}
        if not left:
            return order, None
        return order, ([nodes[i] for i in _cycle(needs, left)], [nodes[i] for i in sorted(left)])

    def node(self, node: NodeSnapshot, scope: LoweringScope) -> None:
        """Add the step of a node, or the steps of the function it calls."""
        if self.functions:
            function = self.functions.get((node.domain, node.op_type, node.overload))
            if function is not None:
                self._call(node, function, scope)
                return
        opset = scope.imports.get(node.domain) or self._opset(node.domain, scope)
        operation = self.library.operation(node, opset, scope.environment, scope.context)
        slots = scope.slots
        ins = tuple([slots[v] if v in slots else self._read(scope, v) for v in node.inputs])
        captured: tuple[int, ...] = ()
        bodies: tuple[BodyPlan, ...] = ()
        if not operation.problem and operation.kernel is not None:
            if operation.bodies:
                captured, bodies = self._bodies(operation, scope)
            ins = tuple(operation.kernel.arguments(ins))
        self._emit(node, scope, operation, ins, captured, bodies)

    def _label(self, node: NodeSnapshot, scope: LoweringScope) -> str:
        """Return the label that seeds the random numbers of a node, the same in every process.

        It consists of the calls around the node and its name, or else its ordinal.
        """
        return "/".join([*map(str, scope.calls), node.name or f"#{node.ordinal}"])

    def _add_failing(self, node: NodeSnapshot, scope: LoweringScope, problem: str) -> None:
        operation = Operation(self.library.token(("problem", node.uid, problem)), 0, problem=problem)
        self._emit(node, scope, operation, tuple(self._read(scope, v) for v in node.inputs))

    def _emit(
        self,
        node: NodeSnapshot,
        scope: LoweringScope,
        operation: Operation,
        ins: tuple[int, ...],
        captured: tuple[int, ...] = (),
        bodies: tuple[BodyPlan, ...] = (),
    ) -> None:
        outs = tuple([self._define(scope, value) for value in node.outputs])
        index, context, token, inputs = len(self.steps), None, 0, 0
        key: Hashable = operation.number
        if not operation.problem:
            if operation.takes_context or bodies:
                context = Context(
                    node.op_type, operation.opset, domain=node.domain, wanted=[value != 0 for value in node.outputs],
                    node_name=self._label(node, scope), seed=self.seed, opset_imports=dict(scope.imports),
                )  # fmt: skip
                key = key, context.node_name, self.seed
            if not self._repeats or not (bodies or _is_stochastic(node)):
                token, inputs = self._content(operation, key, ins + captured if captured else ins, outs)
            if bodies:
                self.bodied.append(index)
        if operation.notes:
            self.notes += [f"{node.title}: {note}" for note in operation.notes]
        self.steps.append(
            PlanStep(index, node, scope.path, operation, ins, outs, captured, bodies, context, token, inputs)
        )

    def _content(
        self, operation: Operation, key: Hashable, reads: Sequence[int], outs: Sequence[int]
    ) -> tuple[int, int]:
        """Return token and inputs of a step, as in PlanStep, and set those of its outputs."""
        tokens, varying, intern = self.tokens, self.varying, self.library.token
        read = [tokens.get(slot, -1) for slot in reads]
        if -1 in read:
            return 0, 0
        token, inputs = intern((key, *read)), AROUND if operation.reads_around else 0
        for slot in reads:
            if slot in varying:
                inputs |= varying[slot]
        for index, slot in enumerate(outs):
            if slot:
                tokens[slot] = intern((token, "output", index)) if index else token
                if inputs:
                    varying[slot] = inputs
        return token, inputs

    def _define(self, scope: LoweringScope, value: int) -> int:
        slots, slot = scope.slots, self.size
        if value in slots:
            self.undefined.pop(slots[value], None)
            return slots[value]
        slots[value], self.size = slot, slot + 1
        return slot

    def _opset(self, domain: str, scope: LoweringScope) -> int:
        opset = scope.imports.get(domain)
        if opset is None:
            opset = assumed_opset(domain, self.ir_version)
            if domain not in self._assumed:
                self._assumed.add(domain)
                self.notes.append(f"no version of operator set {domain or 'ai.onnx'} is imported; {opset} is assumed")
        return opset

    def _bodies(self, operation: Operation, scope: LoweringScope) -> tuple[tuple[int, ...], tuple[BodyPlan, ...]]:
        """Return the slots that the bodies of an operation capture, and the plans of the bodies."""
        bodies = []
        outer_slots: dict[int, None] = {}
        for name, graph in operation.bodies.items():
            captured = {v: self._read(scope, v) for v in self.library.free_values(graph)}
            inner = LoweringScope(scope.path, scope.environment, scope.imports, scope.context, scope.calls)
            bodies.append(self.body(name, graph, inner, captured))
            outer_slots.update(dict.fromkeys(captured.values()))
        return tuple(outer_slots), tuple(bodies)

    # -- functions -------------------------------------------------------------------------------------------

    def _call(self, node: NodeSnapshot, function: FunctionSnapshot, scope: LoweringScope) -> None:
        """Inline the function that a node calls."""
        problem = self._call_problem(node, function)
        if problem:
            self._add_failing(node, scope, problem)
            return
        environment = {a.name: a for a in function.defaults}
        environment.update({a.name: a for a in resolve(node.attributes, scope.environment)})
        body = function.body
        imports = function.opset_imports or scope.imports
        context = (scope.context, function.uid, tuple(imports.items()))
        path, calls = (*scope.path, node.node), (*scope.calls, node.ordinal)
        inner = LoweringScope(path, environment, imports, context, calls)
        self.scopes.append(inner)
        for position, value in enumerate(body.inputs):
            outer = node.inputs[position] if position < len(node.inputs) else ABSENT
            inner.slots[value] = self._read(scope, outer)
        for value, tensor in body.initializers:
            self._constant(self._slot(inner, value), tensor)
        self._depth.append(function.key)
        self._nodes(body, inner)
        self._depth.pop()
        for value, result in zip(node.outputs, body.outputs, strict=False):
            if value != ABSENT:
                scope.slots[value] = self._read(inner, result)  # they share a slot

    def _call_problem(self, node: NodeSnapshot, function: FunctionSnapshot) -> str:
        name = "::".join(part for part in (function.key[0], function.key[1]) if part)
        if function.key in self._depth:
            path = " → ".join(k[1] for k in [*self._depth, function.key])
            return f"the function {name} calls itself: {path}; expected calls that come to an end"
        if len(self._depth) >= MAX_CALL_DEPTH:
            return f"calls of functions nest deeper; expected at most {MAX_CALL_DEPTH} levels"
        if self._extent.expected > MAX_EXPANDED:
            return f"calls of functions expand to {self._extent.expected:,} nodes; expected at most {MAX_EXPANDED:,}"
        if self._extent.called > MAX_EXPANDED:  # of functions that call themselves
            return f"calls of functions expand to more than {MAX_EXPANDED:,} nodes; expected no more"
        if len(node.inputs) > len(function.body.inputs):
            return f"{len(node.inputs)} inputs; expected at most {len(function.body.inputs)}, those of {name}"
        if len(node.outputs) > len(function.body.outputs):
            return f"{len(node.outputs)} outputs; expected at most {len(function.body.outputs)}, those of {name}"
        return ""


def _expanded_steps(graph: GraphSnapshot, functions: Mapping[FunctionKey, FunctionSnapshot]) -> int:
    """Return the number of steps that the calls in a graph expand to, without those that call themselves."""
    if not functions:
        return 0
    sizes = expanded_sizes({key: _operators(function.body) for key, function in functions.items()})
    return sum(count * sizes[key][1] for key, count in _operators(graph).items() if key in sizes)


def _operators(graph: GraphSnapshot) -> Counter[FunctionKey]:
    """Count the operators of a graph and of its bodies."""
    return Counter((node.domain, node.op_type, node.overload) for part in graph.walk() for node in part.nodes)


def assumed_opset(domain: str, ir_version: int) -> int:
    """Return the operator set version for a domain that a model does not import: the newest for its IR version."""
    from onnx.helper import VERSION_TABLE  # rare: importing onnx is slow

    column = {"": 2, "ai.onnx.ml": 3, "ai.onnx.training": 4}.get(domain)
    if column is not None:
        versions = [row[column] for row in VERSION_TABLE if row[1] <= ir_version and len(row) > column]
        if versions:
            return int(max(versions))
    return schemas.newest_opset(domain)


def _beginning(entries: Any, count: int) -> Any:
    """Return the first entries of a list or dict."""
    return dict(islice(entries.items(), count)) if isinstance(entries, dict) else entries[:count]


def _is_stochastic(node: NodeSnapshot) -> bool:
    return traits.find(node.op_type, node.domain).is_stochastic


def _cycle(needs: Sequence[set[int]], left: set[int]) -> list[int]:
    """Return a cycle among the nodes left, in which each feeds the next and the last the first.

    Each of them needs another one, so that going backwards must reach some node twice.
    """
    path: list[int] = []
    index = min(left)
    while index not in path:
        path.append(index)
        index = min(needs[index] & left)
    return path[path.index(index) :][::-1]
