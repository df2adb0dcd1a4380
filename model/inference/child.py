"""Shape inference in a sandboxed child process: onnx's own, then node by node with rules for what it leaves open.

The only module outside model.io that uses messages, because onnx's inference needs them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

from onnx_workbench.model import extensions
from onnx_workbench.model.errors import RULE_ERRORS
from onnx_workbench.model.garbage import no_collection
from onnx_workbench.model.inference import custom_rules
from onnx_workbench.model.inference.control_flow import formal_types, joined
from onnx_workbench.model.inference.doubtful import doubtful_nodes, imports_for, walk
from onnx_workbench.model.inference.lenience import LENIENT, acceptable, excess, is_larger_slope, with_slope
from onnx_workbench.model.inference.node_call import NodeCall, Rule
from onnx_workbench.model.inference.onnx_library import InferenceRefused, infer_model, infer_node, with_attributes
from onnx_workbench.model.inference.protocol import Spot, TypeFault, encode
from onnx_workbench.model.inference.rules import RULES, user_rule
from onnx_workbench.model.inference.shape_contents import RESHAPING, ModelIR, ShapeContents
from onnx_workbench.model.inference.size_formulas import fill
from onnx_workbench.model.inference.type_errors import TypeErrors
from onnx_workbench.model.inference.type_lattice import (
    common,
    is_better,
    is_full,
    is_partly_open,
    pad,
    surely_sized,
    weight,
    without_dims,
)
from onnx_workbench.model.io.protobuf import ModelProto, TypeProto
from onnx_workbench.model.io.reader.decode import bodies, read_type
from onnx_workbench.model.io.writer.encode import write_type
from onnx_workbench.model.ir.types import (
    UNNAMED,
    Dimension,
    ElementType,
    Shape,
    TensorType,
    Type,
    element_type,
    with_sizes,
)

_ROUNDS = 6  # alternations of onnx's inference and ours; each resolves at least one operator the other cannot
_FORMULA_ROUNDS = 4  # alternations of formulas and rules, which resolve what the other cannot
_DEEPEST = 32  # functions within functions
_MOST_RUN = 500_000  # most nodes for onnx's inference, about a second; those in functions count per call
_BUDGET = 200_000  # nodes examined one by one, calls of functions counted each time

_LOOP_TRIALS = 3  # attempts to find loop-invariant sizes; nested loops try within attempts

#: The first inputs of a Loop's subgraph: iteration number and condition.
_TURN = (TensorType(ElementType.INT64, Shape()), TensorType(ElementType.BOOL, Shape()))


def run(payload: bytes) -> bytes:
    """Run on a header line (rules, extensions that have some, whether to find formulas) and a stripped model; the
    result is for `protocol.decode`.
    """
    header, _, data = payload.partition(b"\n")
    asked = json.loads(header)
    extensions.load_exactly(tuple(map(tuple, asked["extensions"])))  # errors were reported where the user named them
    rules = {tuple(key.split("::", 1)): user_rule(text) for key, text in asked["rules"].items()}
    inference = Inference(data, custom_rules.functions() | {k: r for k, r in rules.items() if r is not None})
    with suppress(MemoryError), no_collection():  # earlier results stay
        inference.run()
        if asked["formulas"]:
            inference.find_formulas()
    return encode(inference.result(), inference.faults())


class Inference:
    """One run over one serialized model."""

    def __init__(self, data: bytes, rules: Mapping[Any, Rule]) -> None:
        model = ModelProto.FromString(data)
        self._model = model
        self._rules = {**RULES, **rules}
        self._imports = _versions(model.opset_import)
        self._functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self._budget = _BUDGET
        self._found: dict[int, dict[str, Type]] = {}  # by id of the graph or function message
        self._formal: dict[tuple[int, str], Type | None] = {}  # declared types of subgraph inputs
        self._read: dict[bytes, Type | None] = {}  # decoded types by message, as many are equal
        self._written: dict[Type, TypeProto] = {}  # messages by type, likewise
        self._given: set[str] = set()  # symbols of the file where inference begins
        self._news: dict[int, set[str]] = {}  # by id of the graph, values refined by formulas
        self._told: set[int] = set()  # ids of graphs in which formulas say all that is known of RESHAPING
        self._first_calls: dict[int, Any] = {}  # by id of the function
        self._call_attributes: Mapping[str, Any] = {}  # attributes of the call whose function is examined
        self._improved = False  # whether the last sweep found anything new
        self._again = False  # whether it is not the first call of a function being examined
        self._faults = TypeErrors()
        self._looked: set[tuple[Any, ...]] = set()  # signatures of calls
        self._answers: dict[Any, tuple[list[Type | None], dict[Any, TypeFault]]] = {}  # of calls, in one sweep of all
        self._asked: dict[Any, list[Type | None]] = {}  # answers of onnx's inference about single nodes
        # The runtime creates Python objects per message while they are referenced, so all are kept for stable ids.
        self._alive = [graph for root in self._all_roots() for graph in walk(root)]
        self._ir = ModelIR(data, self._alive)
        self._main = list(walk(model.graph))
        self._doubtful = [node for root in self._all_roots() for node in doubtful_nodes(root, self._imports_of(root))]
        for function in model.functions:
            version = self._imports_of(function).get("", 1)
            nodes = (node for graph in walk(function) for node in graph.node if _domain(node) == "")
            self._doubtful += [node for node in nodes if is_larger_slope(node.op_type, version)]
        self._opens_calls = _nodes_run(model) <= _MOST_RUN

    def run(self) -> None:
        """Infer all that onnx's inference and our rules can."""
        for root in self._roots():
            self._forget_declarations(root)
        _name_open_sizes(self._model.graph, self._given)
        self._infer_whole()
        self._collect()
        if larger := list(self._larger_slopes()):
            self._doubtful += larger
            for graph in self._main:
                self._types(graph).clear()
                del graph.value_info[:]
                for output in graph.output:
                    output.ClearField("type")
            self._infer_whole()
        self._collect()
        for _ in range(_ROUNDS):
            self._improved = False
            self._sweep_all()
            if not self._improved:
                break
            self._declare()
            self._infer_whole()
            if not self._collect():  # a sweep makes use of all that it finds, as nodes are in order
                break
        for training in self._model.training_info:
            for field in ("initialization", "algorithm"):
                if not training.HasField(field):
                    continue
                graph = getattr(training, field)
                self._sweep(graph, dict(self._types(self._model.graph)), self._imports, 0)

    def _larger_slopes(self) -> Iterator[Any]:
        """Yield the PRelu nodes of the main graph whose result may be larger than the first input, unlike in onnx."""
        visible: dict[str, Type] = {}
        for graph in self._main:
            for tensor in graph.initializer:
                visible[tensor.name] = TensorType(element_type(tensor.data_type), Shape(tuple(tensor.dims)))
            visible |= self._types(graph)
        for graph in self._main:
            for node in graph.node:
                if _domain(node) == "" and is_larger_slope(node.op_type, self._imports.get("", 1)):
                    x, slope = (visible.get(name) for name in (*node.input, "", "")[:2])
                    if x != with_slope(x, slope):
                        yield node

    def find_formulas(self) -> None:
        """Express open sizes by symbols. Rules may then infer more."""
        for _ in range(_FORMULA_ROUNDS):
            found = [self._types(graph) for graph in self._alive]
            if not any(is_partly_open(kind) for types in found for kind in types.values()):
                return
            filled = fill(self._ir, found, lambda size: weight(size) < 2)
            self._news = {id(graph): names for graph, names in zip(self._alive, filled, strict=True) if names}
            self._told = set(map(id, self._main))
            self._improved = False
            if self._news:
                self._sweep_all()
            if not self._improved:
                return

    def result(self) -> list[dict[str, Type]]:
        """Return types by value name, for the main graph and its subgraphs, then functions, then training.

        A size without a symbol of the file is open: names made up by onnx's inference mean nothing, not even that sizes
        differ.
        """
        return [
            {name: self._without_made_up(kind) for name, kind in self._found.get(id(graph), {}).items()}
            for graph in self._alive
        ]

    def faults(self) -> list[TypeFault]:
        """Return nodes with type errors; graphs are numbered as in `result`."""
        numbers = {id(graph): number for number, graph in enumerate(self._alive)}

        def spot(of: Spot) -> Spot:
            return numbers[of[0]], of[1]

        return [replace(f, spot=spot(f.spot), calls=tuple(map(spot, f.calls))) for f in self._faults.found.values()]

    def _without_made_up(self, kind: Type) -> Type:
        def size(dim: Dimension) -> Dimension:
            return None if weight(dim) == 1 and dim not in self._given else dim

        return with_sizes(kind, size)

    def _imports_of(self, root: Any) -> Mapping[str, int]:
        own = getattr(root, "opset_import", None)  # of a function
        return self._imports if own is None else _versions(own)

    def _roots(self) -> Iterator[Any]:
        yield self._model.graph
        for training in self._model.training_info:
            for field in ("initialization", "algorithm"):
                if training.HasField(field):  # accessing a missing one would create it
                    yield getattr(training, field)

    def _all_roots(self) -> Iterator[Any]:
        yield self._model.graph
        yield from self._model.functions
        for training in self._model.training_info:
            for field in ("initialization", "algorithm"):
                if training.HasField(field):
                    yield getattr(training, field)

    def _forget_declarations(self, root: Any) -> None:
        """Remove declarations of inner values and outputs, which may be wrong and are compared with the result later.

        Those of subgraph inputs count only where nothing is known of their arguments.
        """
        for graph in walk(root):
            self._given.update(d.dim_param for value in graph.input for d in value.type.tensor_type.shape.dim)
            del graph.value_info[:]
            for output in graph.output:
                output.ClearField("type")
            for value in graph.input if graph is not root else ():
                self._formal[id(graph), value.name] = self._type(value.type)
                value.ClearField("type")

    def _infer_whole(self) -> None:
        """Run onnx's inference over the main graph; a model it cannot process is left to the sweep.

        Nodes for which it is wrong are hidden from it. It infers every call separately, so functions are omitted where
        nested calls become too many.
        """
        names = [node.op_type for node in self._doubtful]
        for node in self._doubtful:
            node.op_type = "Hidden"
        inferred = infer_model(self._model if self._opens_calls else _without_functions(self._model))
        for node, name in zip(self._doubtful, names, strict=True):
            node.op_type = name
        if inferred is not None:
            _adopt_types(self._main, list(walk(inferred.graph)))

    def _collect(self) -> bool:
        """Read the types from the messages of the main graph and its subgraphs.

        Returns whether any is new, and not only in names that onnx's inference made up.
        """
        is_new = False
        for graph in self._main:
            types = self._types(graph)
            for info in (*graph.value_info, *graph.input, *graph.output):
                kind = self._type(info.type)
                known = types.get(info.name)
                if kind is not None and is_better(kind, known):
                    types[info.name] = kind
                    is_new = is_new or is_better(surely_sized(kind), known)
        return is_new

    def _type(self, message: Any) -> Type | None:
        written = message.SerializeToString()
        if written not in self._read:
            self._read[written] = read_type(message)
        return self._read[written]

    def _message(self, kind: Type) -> TypeProto:
        """Return the message of a type, not to be changed."""
        if kind not in self._written:
            self._written[kind] = TypeProto()
            write_type(self._written[kind], kind)
        return self._written[kind]

    def _types(self, graph: Any) -> dict[str, Type]:
        return self._found.setdefault(id(graph), {})

    def _declare(self) -> None:
        """Write the found types into the messages, as input for onnx's inference."""
        for graph in self._main:
            declared = {info.name: info for info in (*graph.value_info, *graph.output)}
            inputs = {info.name for info in graph.input}
            for name, kind in self._types(graph).items():
                if name in inputs:
                    continue
                info = declared.get(name)
                if info is None:
                    info = graph.value_info.add()
                    info.name = name
                elif self._type(info.type) == kind:
                    continue
                info.type.CopyFrom(self._message(kind))

    def _sweep_all(self) -> None:
        """Visit the main graph again with all function calls, whose inner types may be better known now."""
        self._answers.clear()
        self._sweep(self._model.graph, {}, self._imports, 0)

    # -- node by node --------------------------------------------------------------------------------------------

    def _sweep(
        self,
        graph: Any,
        given: Mapping[str, Type],
        imports: Mapping[str, int],
        depth: int,
        outer: ShapeContents | None = None,
    ) -> None:
        types = self._types(graph)
        visible = {**given, **types}
        constants = {t.name: t for t in getattr(graph, "initializer", ())}
        for tensor in constants.values():
            visible.setdefault(tensor.name, TensorType(element_type(tensor.data_type), Shape(tuple(tensor.dims))))
        values = ShapeContents(self._ir, graph, visible, outer, self._call_attributes)
        improved = self._news.pop(id(graph), set())
        for written in graph.node:
            self._budget -= 1
            if self._budget < 0:
                return
            # Calls and subgraphs are identified by their messages.
            is_plain = not bodies(written) and self._function(written) is None
            node = with_attributes(written, self._call_attributes) if is_plain and self._call_attributes else written
            if self._is_worth_asking(node, visible, improved, is_told=id(graph) in self._told):
                found = self._infer_node(graph, node, imports, values, depth)
                for name, kind in zip(node.output, found, strict=False):
                    if name and kind is not None and is_better(kind, visible.get(name)):
                        types[name] = visible[name] = kind
                        improved.add(name)
                        self._improved = True
            elif is_plain:
                self._faults.check_types(graph, node, _domain(node), visible, imports)
            if is_plain and node.op_type in LENIENT and _domain(node) == "":
                kinds = [visible.get(name) for name in node.input]
                call = NodeCall(kinds, _attributes(node), len(node.output), imports.get("", 1))
                with suppress(*RULE_ERRORS):
                    self._faults.note_excess(graph, node, visible, excess(call, node.op_type))
            values.visit(node)

    def _is_worth_asking(self, node: Any, visible: Mapping[str, Type], improved: Set[str], *, is_told: bool) -> bool:
        """Return whether more may be found about a node than by onnx's whole-graph inference."""
        known = [visible.get(name) for name in node.output if name]
        if not all(map(is_full, known)) or bodies(node) or self._is_new_call(node, visible):
            return True
        if node.op_type in RESHAPING:
            return not is_told and any(map(is_partly_open, known))
        return not improved.isdisjoint(node.input) and any(map(is_partly_open, known))

    def _infer_node(
        self,
        graph: Any,
        node: Any,
        imports: Mapping[str, int],
        values: ShapeContents,
        depth: int,
    ) -> Sequence[Type | None]:
        domain, visible = _domain(node), values.visible
        function = self._function(node)
        if function is not None:
            return self._infer_function(graph, function, node, visible, depth)
        if bodies(node):
            return self._infer_bodies(node, imports, values, depth)
        found = self._ask_onnx(graph, node, imports_for(node, imports), values)
        rule = self._rules.get((domain, node.op_type)) or self._rules.get((node.domain, node.op_type))
        if rule is not None and (len(found) < len(node.output) or not all(map(is_full, found))):
            call = NodeCall(
                [visible.get(name) if name else None for name in node.input],
                _attributes(node),
                len(node.output),
                imports.get(domain, 1),
                [values.of(name) for name in node.input],
            )
            ours: list[Type | None] = []
            with suppress(*RULE_ERRORS):
                ours = list(rule(call))
            found = [b if is_better(b, a) else a for a, b in pad(list(found), ours, len(node.output))]
        if not found and domain == "" and node.op_type == "Constant":
            found = [_referred_constant(node)]
        shaped = values.shape_of_result(node)
        if shaped is not None and (not found or is_better(shaped, found[0])):
            found = [shaped, *found[1:]]
        return found

    def _ask_onnx(self, graph: Any, node: Any, imports: Mapping[str, int], values: ShapeContents) -> list[Type | None]:
        visible = values.visible
        kinds: Sequence[Type | None] = [visible.get(name) for name in node.input]
        is_lenient = node.op_type in LENIENT and _domain(node) == ""
        if is_lenient:
            kinds = acceptable(node.op_type, kinds, _attributes(node))
        if any(name and kind is None for name, kind in zip(node.input, kinds, strict=True)):
            return []
        constants = {name: t for name in node.input if (t := values.tensor(name)) is not None}
        key = _question(node, kinds, constants, imports)
        if key not in self._asked:
            given = {}
            for name, kind in zip(node.input, kinds, strict=True):
                if kind is not None:
                    given[name] = self._message(kind)
            try:
                found = infer_node(node, _domain(node), given, constants, imports)
            except InferenceRefused as refused:
                self._faults.note(graph, node, visible, refused)
                return []
            self._asked[key] = [None if t is None else read_type(t) for t in found]
        self._faults.note(graph, node, visible, None)
        if is_lenient and is_larger_slope(node.op_type, imports.get("", 1)) and len(kinds) == 2:
            return [with_slope(*kinds)]
        return list(self._asked[key])

    def _function(self, node: Any) -> Any:
        return self._functions.get((node.domain, node.op_type, node.overload))

    def _is_new_call(self, node: Any, visible: Mapping[str, Type]) -> bool:
        """Return whether a node calls a function with argument types and attributes not examined yet."""
        function = self._function(node)
        return function is not None and self._signature(function, node, visible) not in self._looked

    def _signature(self, function: Any, node: Any, visible: Mapping[str, Type]) -> tuple[Any, ...]:
        given = (a.SerializeToString() for a in with_attributes(node, self._call_attributes).attribute)
        return id(function), *map(visible.get, node.input), *given

    def _infer_function(
        self, graph: Any, function: Any, node: Any, visible: Mapping[str, Type], depth: int
    ) -> Sequence[Type | None]:
        """Infer inside a function: types are those of its first call; each call gets its own outputs.

        Calls with equal argument types and attributes are examined once.
        """
        if depth >= _DEEPEST:
            return []
        is_new = id(function) not in self._first_calls
        first = self._first_calls.setdefault(id(function), node) is node and (is_new or not self._again)
        formal = {f: visible[a] for f, a in zip(function.input, node.input, strict=False) if a in visible}
        given = with_attributes(node, self._call_attributes).attribute
        key = self._signature(function, node, visible)
        self._looked.add(key)
        if first or key not in self._answers:
            with self._faults.within(graph, node) as found:
                self._answers[key] = self._answer(function, formal, given, depth, first), found
        result, found = self._answers[key]
        self._faults.add_all(found)
        return result

    def _answer(
        self, function: Any, formal: dict[str, Type], given: Iterable[Any], depth: int, first: bool
    ) -> list[Type | None]:
        """Return a function's result types for argument types and attributes. Inner types are kept for the first
        call.
        """
        before = {} if first else {id(graph): self._found.pop(id(graph), {}) for graph in walk(function)}
        imports = _versions(function.opset_import)
        self._found[id(function)] = formal
        outer = self._call_attributes, self._again
        self._call_attributes = {a.name: a for a in (*function.attribute_proto, *given)}
        self._again = self._again or not first
        self._sweep(function, dict(formal), imports, depth + 1)
        self._call_attributes, self._again = outer
        result = [self._found[id(function)].get(name) for name in function.output]
        self._found.update(before)
        return result

    def _infer_bodies(
        self, node: Any, imports: Mapping[str, int], values: ShapeContents, depth: int
    ) -> Sequence[Type | None]:
        if depth >= _DEEPEST:
            return []
        visible = values.visible
        if node.op_type == "Loop":
            body = next(iter(bodies(node)))
            return joined(node, [self._infer_loop(node, body, imports, values, depth)], visible)
        with self._faults.in_branch() if node.op_type == "If" else nullcontext():
            results = [
                self._infer_body(body, formal_types(node, body, visible), imports, values, depth)
                for body in bodies(node)
            ]
        is_true = values.truth(node) if node.op_type == "If" and len(results) == 2 else None
        if is_true is not None:
            chosen = next(a.name for a in node.attribute if a.HasField("g")) == "then_branch"
            return results[0 if chosen is is_true else 1]
        return joined(node, results, visible)

    def _infer_body(
        self,
        body: Any,
        formal: Sequence[Type | None],
        imports: Mapping[str, int],
        outer: ShapeContents,
        depth: int,
    ) -> list[Type | None]:
        types = self._types(body)
        for value, given in zip(body.input, formal, strict=False):
            kind = given or self._formal.get((id(body), value.name))
            if kind is not None and is_better(kind, types.get(value.name)):
                types[value.name] = kind
        self._sweep(body, outer.visible, imports, depth + 1, outer)
        inner = {**outer.visible, **types}
        return [inner.get(output.name) for output in body.output]

    def _infer_loop(
        self, node: Any, body: Any, imports: Mapping[str, int], outer: ShapeContents, depth: int
    ) -> list[Type | None]:
        """Infer a Loop: carried values keep the sizes that are invariant over an iteration."""
        carried = [surely_sized(outer.visible.get(name)) for name in node.input[2:]]
        before = {id(graph): dict(self._types(graph)) for graph in walk(body)}
        was_improved, faults = self._improved, dict(self._faults.found)
        for _ in range(_LOOP_TRIALS):
            results = self._infer_body(body, [*_TURN, *carried], imports, outer, depth)
            kept = [common(a, surely_sized(b)) for a, b in zip(carried, results[1:], strict=False)]
            if kept == carried[: len(kept)]:
                return results
            self._found.update({key: dict(types) for key, types in before.items()})
            self._improved, carried = was_improved, kept
            self._faults.reset(faults)
        return self._infer_body(body, [*_TURN, *map(without_dims, carried)], imports, outer, depth)


def _versions(imports: Iterable[Any]) -> dict[str, int]:
    """Return the opset versions by domain."""
    return {("" if o.domain == "ai.onnx" else o.domain): o.version for o in imports}


def _domain(node: Any) -> str:
    return "" if node.domain == "ai.onnx" else str(node.domain)


# -- messages -------------------------------------------------------------------------------------------------


def _nodes_run(model: Any) -> int:
    """Return how many nodes a run of the main graph executes with every branch taken; some number above `_MOST_RUN` if
    more.

    Recursive functions are followed no deeper than there are functions.
    """
    inside = {(f.domain, f.name, f.overload): _operators(f) for f in model.functions}
    level, total = _operators(model.graph) if inside else Counter(), 0
    for _ in range(len(inside) + 1):
        total += level.total()
        if total > _MOST_RUN:
            break
        below: Counter[tuple[str, str, str]] = Counter()
        for key, times in level.items():
            for operator, count in inside.get(key, {}).items():
                below[operator] += times * count
        level = below
    return total


def _operators(root: Any) -> Counter[tuple[str, str, str]]:
    return Counter((node.domain, node.op_type, node.overload) for graph in walk(root) for node in graph.node)


def _without_functions(model: Any) -> Any:
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.functions[:]
    return copy


def _adopt_types(ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Copy inferred types into the same graphs of our message, whose message objects must stay the same."""
    for mine, other in zip(ours, theirs, strict=True):
        del mine.value_info[:]
        mine.value_info.extend(other.value_info)
        for output, inferred in zip(mine.output, other.output, strict=True):
            output.CopyFrom(inferred)


def _name_open_sizes(graph: Any, taken: set[str]) -> None:
    """Assign symbols, ``x_d0``, to open sizes of the model inputs, so that dependent sizes can be expressed.

    Negative and `UNNAMED` ones, which some exporters write, count as open.
    """
    constants = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        tensor = value.type.tensor_type if value.type.HasField("tensor_type") else None
        if tensor is None or value.name in constants or not tensor.HasField("shape"):
            continue
        for axis, dim in enumerate(tensor.shape.dim):
            if dim.dim_param not in ("", UNNAMED) or (dim.HasField("dim_value") and dim.dim_value >= 0):
                continue
            name = f"{value.name}_d{axis}"
            while name in taken:
                name += "_"
            taken.add(name)
            dim.dim_param = name


def _referred_constant(node: Any) -> Type | None:
    """Return the type of a Constant whose value is an attribute reference."""
    for attribute in node.attribute:
        for name, kind in (("value_float", ElementType.FLOAT), ("value_int", ElementType.INT64)):
            if attribute.name.startswith(name):
                return TensorType(kind, Shape((None,) if attribute.name.endswith("s") else ()))
    return None


def _question(
    node: Any, kinds: Sequence[Type | None], constants: Mapping[str, Any], imports: Mapping[str, int]
) -> tuple[Any, ...]:
    """Return all that the result types of a node depend on, names left out: layers of a model are often alike."""
    contents = {name: _content(tensor) for name, tensor in constants.items()}
    return (
        node.op_type,
        node.domain,
        *(attribute.SerializeToString() for attribute in node.attribute),
        tuple(kinds),
        tuple(contents.get(name) for name in node.input),
        tuple(map(bool, node.output)),
        frozenset(imports.items()),
    )


def _content(tensor: Any) -> bytes:
    copy = type(tensor)()
    copy.CopyFrom(tensor)
    copy.ClearField("name")
    return bytes(copy.SerializeToString())


def _attributes(node: Any) -> dict[str, Any]:
    """Return numeric and text attributes of a node; rules do not use tensors and graphs."""
    return {a.name: _PLAIN[a.type](a) for a in node.attribute if a.type in _PLAIN and not a.ref_attr_name}


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "replace")


#: AttributeProto's type numbers of numbers and texts, single ones and lists.
_PLAIN: dict[int, Callable[[Any], Any]] = {
    1: lambda a: a.f,
    2: lambda a: a.i,
    3: lambda a: _decoded(a.s),
    6: lambda a: list(a.floats),
    7: lambda a: list(a.ints),
    8: lambda a: [_decoded(s) for s in a.strings],
}
