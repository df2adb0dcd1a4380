"""From a snapshot to a plan: every value gets a slot, every node becomes a step, functions are expanded in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from onnx_workbench.exec.engine.autodiff_region import RegionFinder
from onnx_workbench.exec.engine.operations import NO_ENVIRONMENT, Environment, Library, Operation, resolve
from onnx_workbench.exec.engine.plan import MISSING, NONE_SLOT, BodyPlan, Plan, Step, refusal
from onnx_workbench.exec.engine.snapshot import (
    ABSENT,
    FunctionKey,
    FunctionSnapshot,
    GraphSnapshot,
    ModelSnapshot,
    NodeSnapshot,
)
from onnx_workbench.exec.errors import KernelError, MissingKernelError
from onnx_workbench.exec.kernels.context import Context, RuntimeValue, checkpoint
from onnx_workbench.exec.kernels.registry import KernelFunction
from onnx_workbench.exec.results.slot_map import Path
from onnx_workbench.model.schemas import registry as schemas
from onnx_workbench.model.simplify.context import STOCHASTIC

#: Steps that calls of functions may grow to, in bodies too; each call is expanded, and calls nest.
MAX_EXPANDED = 1_000_000
MAX_CALL_DEPTH = 100

#: Steps between two looks at the limits of the run that is planned.
_LOOK = 1024


def compile_model(
    snapshot: ModelSnapshot, library: Library, *, seed: int = 0, fed: frozenset[int] = frozenset()
) -> Plan:
    """The plan of a model's graph; `fed` are initializers that this run replaces. Heeds the limits of this thread."""
    library.use(snapshot)
    compiler = Compiler(library, snapshot.functions, snapshot.names, seed, snapshot.ir_version)
    return compiler.root(snapshot.graph, snapshot.opset_imports, fed)


def compile_expansion(
    library: Library,
    graph: GraphSnapshot,
    imports: Mapping[str, int],
    environment: Environment,
    *,
    seed: int,
    label: str,
) -> Plan:
    """The plan of a function body that replaces a kernel; `label` tells its random numbers from those of others."""
    compiler = Compiler(library, {}, {}, seed, 13, label)
    compiler._repeats = True
    return compiler.root(graph, imports, frozenset(), environment)


class LoweringScope:
    """Where values of one graph (of one call of a function) live."""

    __slots__ = ("context", "environment", "imports", "path", "slots")

    def __init__(self, path: Path, environment: Environment, imports: Mapping[str, int], context: Any) -> None:
        self.path = path
        self.environment = environment
        self.imports = imports
        self.slots: dict[int, int] = {ABSENT: NONE_SLOT}
        self.context = context  # what else decides what a node with bodies computes


class _Extent:
    """How far a plan and those of its bodies have grown: all steps, and those that lie in calls of functions."""

    __slots__ = ("called", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self.called = 0

    def grow(self, *, called: bool) -> None:
        """By one step. Raises Cancelled, or LimitError past the time limit of the run."""
        self.steps += 1
        self.called += called
        if not self.steps % _LOOK:
            checkpoint()


class Compiler:
    """Makes one plan: `root` of a whole graph, `node` of a single one into the plan at hand."""

    def __init__(
        self,
        library: Library,
        functions: Mapping[FunctionKey, FunctionSnapshot],
        names: Mapping[int, str],
        seed: int,
        ir_version: int,
        label: str = "",
    ) -> None:
        self.label = label
        self.library = library
        self.functions = functions
        self.names = names
        self.seed = seed
        self.ir_version = ir_version
        self.plan = Plan([], 1, (), (), {}, {NONE_SLOT: 0}, {}, {}, names)
        self._depth: list[FunctionKey] = []
        self._extent = _Extent()
        self._assumed: set[str] = set()
        self._repeats = False  # what is compiled may run several times in a run, with other random numbers each time
        self._failed = False  # some node fails for what is around it: a cycle, a recursion

    # -- graphs ----------------------------------------------------------------------------------------------

    def root(
        self,
        graph: GraphSnapshot,
        imports: Mapping[str, int],
        fed: frozenset[int],
        environment: Environment = NO_ENVIRONMENT,
    ) -> Plan:
        """The plan of a graph that is in no other."""
        functions = tuple(f.uid for f in self.functions.values())
        scope = LoweringScope((), environment, imports, (functions, tuple(imports.items())))
        return self.finish(graph, scope, fed)

    def body(
        self, graph: GraphSnapshot, scope: LoweringScope, captured: Mapping[int, int], outer: Plan
    ) -> tuple[Plan, tuple[tuple[int, int], ...]]:
        """A plan of its own for a body, and the (outer, inner) slots of what it captures."""
        self._repeats = True
        captures = []
        for value, slot in captured.items():
            inner = self._slot(scope, value)
            captures.append((slot, inner))
            if slot in outer.tokens:
                self.plan.tokens[inner] = outer.tokens[slot]
            if slot in outer.undefined:
                self.plan.undefined[inner] = value
        plan = self.finish(graph, scope, frozenset(graph.inputs))
        plan.looked_at = (*plan.inputs, *[inner for _, inner in captures if inner not in plan.tokens])
        return plan, tuple(captures)

    def finish(self, graph: GraphSnapshot, scope: LoweringScope, fed: frozenset[int]) -> Plan:
        """Compile a graph in a scope that knows what is around it."""
        plan = self.plan
        plan.inputs = tuple(self._slot(scope, v) for v in graph.inputs)
        for value, tensor in graph.initializers:
            if value not in fed:
                self._constant(self._slot(scope, value), tensor)
        self._nodes(graph, scope)
        plan.outputs = tuple(self._read(scope, v) for v in graph.outputs)
        plan.template = [MISSING] * plan.size
        plan.template[NONE_SLOT] = None
        plan.straight = (
            not self._failed
            and len(plan.steps) == len(graph.nodes)
            and all(step.node is node for step, node in zip(plan.steps, graph.nodes, strict=True))
        )
        for step in plan.steps:
            if step.bodies or step.operation.expands:
                plan.bodied.append(step)
            for slot in step.outs:
                if slot:
                    plan.producers[slot] = step
        return plan

    def _slot(self, scope: LoweringScope, value: int) -> int:
        slot = scope.slots.get(value)
        if slot is None:
            plan = self.plan
            slot = scope.slots[value] = plan.slots[scope.path, value] = plan.size
            plan.size += 1
        return slot

    def _read(self, scope: LoweringScope, value: int) -> int:
        slot = scope.slots.get(value)
        if slot is None:
            slot = self._slot(scope, value)
            self.plan.undefined[slot] = value
        return slot

    def _constant(self, slot: int, tensor: int) -> None:
        self.plan.constants[slot] = tensor
        self.plan.tokens[slot] = self.library.token(("tensor", tensor))

    # -- nodes -----------------------------------------------------------------------------------------------

    def _nodes(self, graph: GraphSnapshot, scope: LoweringScope) -> None:
        ordered, cyclic = self._order(graph, scope)
        for node in ordered:
            self.node(node, scope)
        if cyclic:
            text = " → ".join(n.title for n in [*cyclic[0], cyclic[0][0]])
            for node in cyclic[1]:
                self._failing(node, scope, f"it is part of, or needs, a cycle of nodes: {text}")

    def _order(
        self, graph: GraphSnapshot, scope: LoweringScope
    ) -> tuple[Sequence[NodeSnapshot], tuple[list[NodeSnapshot], list[NodeSnapshot]] | None]:
        """Nodes in an order in which they can run, the file's own where that is one; and what is left of a cycle."""
        defined = set(scope.slots)
        for node in graph.nodes:
            if not defined.issuperset(self._needs(node)):
                break
            defined.update(node.outputs)
        else:
            return graph.nodes, None
        return self._sort(graph)

    def _needs(self, node: NodeSnapshot) -> Sequence[int]:
        bodies = node.bodies
        if not bodies:
            return node.inputs
        return [*node.inputs, *(v for body in bodies for v in self.library.free_values(body))]

    def _sort(
        self, graph: GraphSnapshot
    ) -> tuple[list[NodeSnapshot], tuple[list[NodeSnapshot], list[NodeSnapshot]] | None]:
        nodes = graph.nodes
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
        """Add the step of a node, or those of the function it calls."""
        function = self.functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            self._call(node, function, scope)
            return
        opset = self._opset(node.domain, scope)
        operation = self.library.operation(node, opset, scope.environment, scope.context)
        ins = tuple([self._read(scope, v) for v in node.inputs])
        if operation.problem or operation.expands:
            self._emit(node, scope, operation, ins, (), (), self._substitute(node, operation, scope), None)
            return
        kernel = operation.kernel
        assert kernel is not None
        ins = tuple(kernel.arguments(ins))
        bodies, captured = self._bodies(operation, scope) if operation.bodies else ((), ())
        attributes = operation.attributes
        if bodies:
            attributes = attributes | {b.attribute: b for b in bodies}
        context = None
        call: KernelFunction = kernel.function
        if kernel.takes_context:
            context = self._context(node, opset, scope)
            call = partial(call, context, **attributes)
        elif attributes:
            call = partial(call, **attributes)
        self._emit(node, scope, operation, ins, captured, bodies, call, context)

    def _context(self, node: NodeSnapshot, opset: int, scope: LoweringScope) -> Context:
        finder = RegionFinder(self.plan, scope.path, self.library)
        self.plan.finders.append(finder)
        finder.context = Context(
            node.op_type,
            opset,
            domain=node.domain,
            wanted=[v != ABSENT for v in node.outputs],
            node_name=self._label(node, scope),
            seed=self.seed,
            opset_imports=dict(scope.imports),
            body_runner=finder,
        )
        return finder.context

    def _label(self, node: NodeSnapshot, scope: LoweringScope) -> str:
        """What tells random numbers of a node from those of others: calls around it, its name or else its number."""
        number = node.node if node.node > 0 else len(self.plan.steps)  # others are not the same in another session
        return "/".join([*filter(None, [self.label]), *map(str, scope.path), node.name or f"#{number}"])

    def _substitute(self, node: NodeSnapshot, operation: Operation, scope: LoweringScope) -> KernelFunction:
        """What runs in place of a kernel: a function body, or something that says why nothing can."""
        if operation.expands:
            return Expansion(self.library, node, operation, self.seed, self._label(node, scope))
        error = MissingKernelError if operation.error == "MissingKernelError" else KernelError
        return refusal(operation.problem, error)

    def _failing(self, node: NodeSnapshot, scope: LoweringScope, problem: str) -> None:
        self._failed = True
        operation = Operation(self.library.token(("problem", node.uid, problem)), 0, problem=problem)
        ins = tuple(self._read(scope, v) for v in node.inputs)
        self._emit(node, scope, operation, ins, (), (), refusal(problem), None)

    def _emit(
        self,
        node: NodeSnapshot,
        scope: LoweringScope,
        operation: Operation,
        ins: tuple[int, ...],
        captured: tuple[int, ...],
        bodies: tuple[BodyPlan, ...],
        call: KernelFunction,
        context: Context | None,
    ) -> None:
        plan = self.plan
        self._extent.grow(called=bool(self._depth))
        outs = tuple([self._define(scope, v) for v in node.outputs])
        step = Step(len(plan.steps), node, scope.path, operation, ins, outs, captured, call, context, bodies)
        plan.steps.append(step)
        token = self.library.token
        has_seed = context is not None or bodies or operation.expands
        depends = (self._label(node, scope), self.seed) if has_seed else ()
        step.key = operation.number if not depends else token((operation.number, depends))
        tokens = plan.tokens
        varies = self._repeats and (node.op_type in STOCHASTIC or bodies or operation.expands)
        if not operation.problem and not varies and tokens.keys() >= {*ins, *captured}:
            step.token = token((step.key, *[tokens[slot] for slot in (*ins, *captured)]))
            for index, slot in enumerate(outs):
                if slot:
                    tokens[slot] = step.token if not index else token((step.token, "output", index))

    def _define(self, scope: LoweringScope, value: int) -> int:
        if value == ABSENT:
            return NONE_SLOT
        slot = self._slot(scope, value)
        self.plan.undefined.pop(slot, None)
        return slot

    def _opset(self, domain: str, scope: LoweringScope) -> int:
        opset = scope.imports.get(domain)
        if opset is None:
            opset = assumed_opset(domain, self.ir_version)
            if domain not in self._assumed:
                self._assumed.add(domain)
                self.plan.notes.append(
                    f"no version of operator set {domain or 'ai.onnx'} is imported; {opset} is assumed"
                )
        return opset

    def _bodies(self, operation: Operation, scope: LoweringScope) -> tuple[tuple[BodyPlan, ...], tuple[int, ...]]:
        bodies = []
        outer_slots: dict[int, None] = {}
        for name, graph in operation.bodies.items():
            captured = {v: self._read(scope, v) for v in self.library.free_values(graph)}
            compiler = Compiler(self.library, self.functions, self.names, self.seed, self.ir_version, self.label)
            compiler._depth, compiler._extent = self._depth, self._extent
            inner = LoweringScope(scope.path, scope.environment, scope.imports, scope.context)
            plan, captures = compiler.body(graph, inner, captured, self.plan)
            bodies.append(
                BodyPlan(
                    name, plan, graph, captures,
                    tuple(plan.name(v) for v in graph.inputs), tuple(plan.name(v) for v in graph.outputs),
                    graph.input_types, graph.output_types,
                )
            )  # fmt: skip
            outer_slots.update(dict.fromkeys(captured.values()))
        return tuple(bodies), tuple(outer_slots)

    # -- functions -------------------------------------------------------------------------------------------

    def _call(self, node: NodeSnapshot, function: FunctionSnapshot, scope: LoweringScope) -> None:
        """Put the nodes of a function in place of a node that calls it."""
        problem = self._call_problem(node, function)
        if problem:
            self._failing(node, scope, problem)
            return
        environment = {a.name: a for a in function.defaults}
        environment.update({a.name: a for a in resolve(node.attributes, scope.environment)})
        body = function.body
        imports = function.opset_imports or scope.imports
        context = (scope.context, function.uid, tuple(imports.items()))
        inner = LoweringScope((*scope.path, node.node), environment, imports, context)
        for position, value in enumerate(body.inputs):
            given = node.inputs[position] if position < len(node.inputs) else ABSENT
            inner.slots[value] = self._read(scope, given)
            self.plan.slots[inner.path, value] = inner.slots[value]
        for value, tensor in body.initializers:
            self._constant(self._slot(inner, value), tensor)
        self._depth.append(function.key)
        self._nodes(body, inner)
        self._depth.pop()
        for value, result in zip(node.outputs, body.outputs, strict=False):
            if value != ABSENT:
                self._alias(scope, value, self._read(inner, result))

    def _alias(self, scope: LoweringScope, value: int, slot: int) -> None:
        """Let a value of the caller be a value inside the function; earlier readers (in bodies) see it as well."""
        scope.slots[value] = slot
        self.plan.slots[scope.path, value] = slot

    def _call_problem(self, node: NodeSnapshot, function: FunctionSnapshot) -> str:
        name = "::".join(part for part in (function.key[0], function.key[1]) if part)
        if function.key in self._depth:
            path = " → ".join(k[1] for k in [*self._depth, function.key])
            return f"the function {name} calls itself: {path}; expected calls that come to an end"
        if len(self._depth) >= MAX_CALL_DEPTH:
            return f"calls of functions nest deeper; expected at most {MAX_CALL_DEPTH} levels"
        if self._extent.called > MAX_EXPANDED:
            return f"calls of functions expand to more than {MAX_EXPANDED:,} nodes; expected no more"
        if len(node.inputs) > len(function.body.inputs):
            return f"{len(node.inputs)} inputs; expected at most {len(function.body.inputs)}, those of {name}"
        if len(node.outputs) > len(function.body.outputs):
            return f"{len(node.outputs)} outputs; expected at most {len(function.body.outputs)}, those of {name}"
        return ""


class Expansion:
    """Runs an operator without a kernel through the function body of its specification; compiled per input types."""

    def __init__(self, library: Library, node: NodeSnapshot, operation: Operation, seed: int, label: str) -> None:
        self._label = label
        self._library = library
        self._node = node
        self._operation = operation
        self._seed = seed
        self.plans: dict[Any, Plan] = {}
        self.runner: Callable[[Plan, Sequence[RuntimeValue]], list[RuntimeValue]] | None = None

    def __call__(self, *inputs: RuntimeValue) -> tuple[RuntimeValue, ...]:
        """The outputs of the body for these inputs."""
        assert self.runner is not None
        key = tuple((v.dtype.str, v.dtype.name, v.shape) if isinstance(v, np.ndarray) else type(v) for v in inputs)
        plan = self.plans.get(key)
        if plan is None:
            from onnx_workbench.exec.engine.function_bodies import expand

            graph, imports, environment = expand(self._library, self._node, self._operation, inputs)
            plan = compile_expansion(self._library, graph, imports, environment, seed=self._seed, label=self._label)
            self.plans[key] = plan
        given = [*inputs, *[None] * (len(plan.inputs) - len(inputs))]
        return tuple(self.runner(plan, given))


def assumed_opset(domain: str, ir_version: int) -> int:
    """The version to run by when a model imports none: the newest that its IR version can hold."""
    from onnx.helper import VERSION_TABLE  # rare: importing onnx is slow

    column = {"": 2, "ai.onnx.ml": 3, "ai.onnx.training": 4}.get(domain)
    if column is not None:
        versions = [row[column] for row in VERSION_TABLE if row[1] <= ir_version and len(row) > column]
        if versions:
            return int(max(versions))
    return schemas.newest_opset(domain)


def _cycle(needs: Sequence[set[int]], left: set[int]) -> list[int]:
    """A cycle among nodes that are left, each of which needs another of them: each feeds the next, the last the first.

    Going back from any node along what it needs must come to a node for the second time.
    """
    path: list[int] = []
    index = min(left)
    while index not in path:
        path.append(index)
        index = min(needs[index] & left)
    return path[path.index(index) :][::-1]
