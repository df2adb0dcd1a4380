"""Model-local functions: extracting a selection, inlining calls, changing signatures."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.call_graph import Operator, callers_of, expanded_sizes, operators_in
from onnx_workbench.model.analysis.scoping import (
    dependencies,
    node_names,
    unique_name,
)
from onnx_workbench.model.analysis.topology import detour, outer_values
from onnx_workbench.model.edits.fresh_names import FreshNames
from onnx_workbench.model.edits.inlining import insert_body, take_out
from onnx_workbench.model.edits.nodes import drop_unused_constants, fresh_outputs, import_domains, is_constant
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import (
    InsertNode,
    RemoveNode,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInputs,
    SetOutputs,
)
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value, Values
from onnx_workbench.model.progress import SILENT, Progress

FUNCTIONS_SINCE = 8  # IR version


def boundary(nodes: Collection[Node]) -> tuple[list[Value], list[Value]]:
    """Return the values that enter a set of nodes from outside (constants included) and those used outside of it."""
    inside = set(nodes)
    inputs: dict[Value, None] = {}
    outputs: dict[Value, None] = {}
    for node in nodes:
        for value in dependencies(node):
            if value.producer not in inside:
                inputs[value] = None
        for made in node.outputs:
            if made is not None and is_used_outside(made, inside):
                outputs[made] = None
    return list(inputs), list(outputs)


def is_used_outside(value: Value, nodes: set[Node]) -> bool:
    """Return whether anything but these nodes and their subgraphs uses a value."""
    return any(not _is_inside(user, nodes) for user, _ in value.uses)


def _is_inside(user: Node | Graph, nodes: set[Node]) -> bool:
    graph = user if isinstance(user, Graph) else user.graph
    if isinstance(user, Node) and user in nodes:
        return True
    while graph is not None:
        if graph.owner in nodes:
            return True
        graph = graph.parent
    return False


def constants_taken(nodes: Collection[Node], graph: Graph) -> list[Node]:
    """Return the Constant nodes of the graph that feed some of its nodes and are not among them."""
    taken = (value.producer for node in nodes for value in dependencies(node) if is_constant(value))
    constants = dict.fromkeys(node for node in taken if node is not None and node.graph is graph)
    inside = set(nodes)
    return [node for node in constants if node not in inside]


def in_graph_order(nodes: Collection[Node]) -> tuple[Graph, list[Node]]:
    """Return the common graph of all nodes, and the nodes in its order; ModelError for none or several graphs."""
    graphs = {node.graph for node in nodes}
    graph = next(iter(graphs)) if len(graphs) == 1 else None
    if graph is None:
        raise ModelError("Select nodes of one graph", f"The selection holds nodes of {len(graphs)} graphs.")
    chosen = set(nodes)
    return graph, [node for node in graph.nodes if node in chosen]


def refuse_detour(nodes: Collection[Node]) -> None:
    """Raise ModelError if the nodes are not convex: if a path leaves and re-enters the set, they cannot become one."""
    offender = detour(nodes)
    if offender is not None:
        raise ModelError(
            "The selection cannot become one node",
            f"{offender.title} lies between its nodes; select it too.",
            offender,
        )


def extract_function(edit: Transaction, nodes: Collection[Node], name: str, domain: str = "local") -> Node:
    """Move nodes into a new function and call it in their place; returns the call.

    Constants that feed them are moved too, and kept for other users.
    """
    if not name or edit.model.function(domain, name) is not None:
        raise ModelError(f"Function {domain}::{name} already exists", "Choose another name.")
    graph, chosen = in_graph_order(nodes)
    refuse_detour(chosen)
    along = constants_taken(chosen, graph)
    constants = {value for node in along for value in node.outputs}
    taken, outputs = boundary(chosen)
    inputs = [value for value in taken if value not in constants]
    function = function_of(graph, [*along, *chosen], inputs, outputs, (domain, name))
    edit.do(SetField(edit.model, "functions", (*edit.model.functions, function)))
    call = call_instead(edit, graph, chosen, function, inputs, outputs)
    drop_unused_constants(edit, [value for node in along for value in node.outputs if value is not None])
    return call


def call_instead(
    edit: Transaction,
    graph: Graph,
    nodes: list[Node],
    function: Function,
    inputs: Collection[Value | None],
    outputs: Collection[Value | None],
) -> Node:
    """Replace nodes of a graph, in any order, by a call of a function; returns the call.

    The call takes the position of the last node; earlier users of its outputs must be moved by the caller.
    """
    _import(edit, graph.importer, function.domain)
    after = take_out(edit, graph, nodes, outputs)
    name = unique_name(function.name, node_names(graph))
    passed = {name: Attribute(name, kind, None, reference=name) for name, kind in _references(function.body).items()}
    call = Node(function.name, tuple(inputs), tuple(outputs), name=name, domain=function.domain, attributes=passed)
    edit.do(InsertNode(graph, call, after))
    return call


def _references(body: Graph) -> dict[str, AttributeKind]:
    attributes = (a for graph in body.walk() for node in graph.nodes for a in node.attributes.values())
    return {a.reference: a.kind for a in attributes if a.reference}


def function_of(
    graph: Graph,
    nodes: list[Node],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    key: tuple[str, str],
    wires: Mapping[tuple[Node, int], int] | None = None,
) -> Function:
    """Return a new function, not in a model yet, with the body of nodes of a graph; `key` is its domain and name.

    References to attributes of an enclosing function become its own attributes of the same names. `wires` maps an input
    of a node to a formal input, where one value stands for several formal inputs; outer values used by subgraphs follow
    its inputs, in the order of `outer_values`.
    """
    domain, name = key
    cloner = Cloner()
    formal = _formal_inputs(nodes, inputs, cloner)
    body = Graph(name)
    body.inputs = Values(formal)
    for value in formal:
        value.graph = body
    wires = wires or {}
    in_bodies: dict[Node, dict[Value, Value | None]] = {}
    for node in nodes:
        outer = enumerate(outer_values(node), len(node.inputs))
        in_bodies[node] = {value: formal[wires[node, index]] for index, value in outer if (node, index) in wires}
    for node, copy in zip(nodes, cloner.nodes(nodes, in_bodies), strict=True):
        places = (wires.get((node, index)) for index in range(len(node.inputs)))
        copy.inputs = tuple(v if at is None else formal[at] for v, at in zip(copy.inputs, places, strict=True))
        InsertNode(body, copy).apply()
    results = tuple(v for v in (cloner.values[o] for o in outputs) if v is not None)
    SetGraphOutputs(body, results).apply()
    function = Function(name, domain, body=body)
    function.attributes = tuple(_references(body))
    imports = graph.opset_imports
    used = {node.domain for g in body.walk() for node in g.nodes}
    function.opset_imports = {d: imports.get(d, schemas.newest_opset(d)) for d in used}
    return function


def _formal_inputs(nodes: list[Node], inputs: Sequence[Value], cloner: Cloner) -> list[Value]:
    """Copy the values that enter from outside, under names that nothing inside has."""
    taken: set[str] = {v.name for n in nodes for v in n.outputs if v is not None}
    taken |= {v.name for n in nodes for body in n.bodies for g in body.walk() for v in g.values()}
    formal = []
    for value in inputs:
        own = cloner.value(value)
        own.name = unique_name(own.name, taken)
        taken.add(own.name)
        own.initializer = None
        formal.append(own)
    return formal


def _import(edit: Transaction, importer: Model | Function | None, domain: str) -> None:
    """Import a function's domain in the caller and in the model, which imports the domains of all its functions."""
    for target in (edit.model, importer):
        import_domains(edit, target, {domain: 1})


def add_function(edit: Transaction, name: str, domain: str = "local", overload: str = "") -> Function:
    """Add an empty function to the model."""
    if not name or edit.model.function(domain, name, overload) is not None:
        raise ModelError(f"Function {domain}::{name} already exists", "Choose another name.")
    function = Function(name, domain, overload)
    function.opset_imports = dict(edit.model.opset_imports)
    edit.do(SetField(edit.model, "functions", (*edit.model.functions, function)))
    _import(edit, None, domain)
    return function


def remove_function(edit: Transaction, function: Function) -> None:
    """Remove a function from the model; ModelError while nodes call it."""
    remove_functions(edit, [function])


def remove_functions(edit: Transaction, functions: Collection[Function]) -> None:
    """Remove functions, which may call each other, from the model; ModelError while other nodes call them."""
    leaving = {function.key: function for function in functions}
    for call in callers_of(edit.model, leaving):
        owner = None if call.graph is None else call.graph.root.owner
        if not isinstance(owner, Function) or leaving.get(owner.key) is not owner:
            name = leaving[call.operator].name
            raise ModelError(f"{name} is in use", f"{call.title} calls it; inline or delete the calls.", call)
    kept = tuple(f for f in edit.model.functions if leaving.get(f.key) is not f)
    edit.do(SetField(edit.model, "functions", kept))


def rename_function(
    edit: Transaction,
    function: Function,
    *,
    name: str | None = None,
    domain: str | None = None,
    overload: str | None = None,
) -> None:
    """Rename a function; all calls follow, and the opset imports when its domain is new."""
    key = (
        function.domain if domain is None else domain,
        function.name if name is None else name,
        function.overload if overload is None else overload,
    )
    if key == function.key:
        return
    if not key[1] or edit.model.function(*key) is not None:
        raise ModelError(
            f"{key[0]}::{key[1]} cannot be the new name" if key[1] else "A function needs a name",
            "Another function has this name." if key[1] else "The name is empty.",
            function,
        )
    calls = callers_of(edit.model, {function.key})
    for field, text in zip(("domain", "name", "overload"), key, strict=True):
        edit.do(SetField(function, field, text))
    edit.do(SetField(function.body, "name", key[1]))  # one opset version for both domains
    _import(edit, None, key[0])
    for call in calls:
        assert call.graph is not None
        _import(edit, call.graph.importer, key[0])
        for field, text in zip(("domain", "op_type", "overload"), key, strict=True):
            edit.do(SetField(call, field, text))


def set_signature(
    edit: Transaction,
    function: Function,
    *,
    inputs: tuple[Value, ...] | None = None,
    outputs: tuple[Value, ...] | None = None,
    attributes: tuple[str, ...] | None = None,
    defaults: tuple[Attribute, ...] | None = None,
) -> None:
    """Change the formal inputs, outputs and attributes of a function. Calls keep the arguments of the values that
    remain, by position. ModelError where an output would go whose value a call uses.
    """
    calls = callers_of(edit.model, {function.key})
    if inputs is not None:
        places = _places(function.body.inputs, inputs)
        edit.do(SetGraphInputs(function.body, inputs))
        for call in calls:
            passed = tuple(call.inputs[p] if p is not None and p < len(call.inputs) else None for p in places)
            edit.do(SetInputs(call, passed))
    if outputs is not None:
        _set_outputs(edit, function, outputs, calls)
    if attributes is not None:
        edit.do(SetField(function, "attributes", attributes))
    if defaults is not None:
        edit.do(SetField(function, "attribute_defaults", defaults))


def _places(old: Sequence[Value], new: Iterable[Value]) -> list[int | None]:
    """Return the first previous position of each value; None for new ones."""
    place_by_value = {value: index for index, value in reversed(list(enumerate(old)))}
    return [place_by_value.get(value) for value in new]


def _set_outputs(edit: Transaction, function: Function, outputs: tuple[Value, ...], calls: list[Node]) -> None:
    places = _places(function.body.outputs, outputs)
    staying = set(places)
    leaving = [position for position in range(len(function.body.outputs)) if position not in staying]
    _refuse_used(function, leaving, calls)
    edit.do(SetGraphOutputs(function.body, outputs))
    for call in calls:
        assert call.graph is not None
        kept = [p if p is not None and p < len(call.outputs) else None for p in places]
        added = iter(fresh_outputs(call.graph, call.title, [index for index, p in enumerate(kept) if p is None]))
        edit.do(SetOutputs(call, tuple(next(added) if p is None else call.outputs[p] for p in kept)))


def _refuse_used(function: Function, leaving: Collection[int], calls: Iterable[Node]) -> None:
    for call in calls:
        for index in leaving:
            value = call.outputs[index] if index < len(call.outputs) else None
            if value is not None and value.uses:
                raise ModelError(
                    f"Output {function.body.outputs[index].name} is used",
                    f"{call.title} gives it as {value.name}; disconnect that first.",
                    value,
                )


def inline_call(edit: Transaction, call: Node) -> list[Node]:
    """Inline a call: replace it by the nodes of its function, with attribute references resolved."""
    graph = call.graph
    function = edit.model.function(*call.operator)
    if function is None or graph is None:
        raise ModelError(
            f"{call.title} does not call a function of this model", f"Its operator is {call.op_type}.", call
        )
    _reconcile_opsets(edit, graph, function, call)
    return replace_by_body(edit, graph, call, function)


def replace_by_body(edit: Transaction, graph: Graph, call: Node, function: Function) -> list[Node]:
    """Replace a node by the nodes of an equivalent function; the caller reconciles the opset imports."""
    outputs = call.outputs
    before = call.next
    # An unused output belongs to no graph once the call is removed, though its name stays taken.
    names = FreshNames()
    names.reserve(graph, (value.name for value in outputs if value is not None))
    edit.do(RemoveNode(call))
    edit.do(SetOutputs(call, tuple(None for _ in outputs)))
    return insert_body(edit, graph, call, outputs, function, before, names)


def _reconcile_opsets(edit: Transaction, graph: Graph, function: Function, call: Node) -> None:
    """Import the function's opsets; ModelError where an operator's meaning differs at the graph's version."""
    target = graph.importer or edit.model
    used = {(n.domain, n.op_type) for g in function.body.walk() for n in g.nodes}
    for domain, version in function.opset_imports.items():
        here = target.opset_imports.get(domain, version)
        for op_domain, op_type in used if here != version else ():
            if op_domain == domain and schemas.has_changed(op_type, domain, version, here):
                raise ModelError(
                    f"{function.name} cannot be inlined",
                    f"It uses {op_type} of opset {version}, the graph imports {here}; convert the model first.",
                    call,
                )
    import_domains(edit, target, function.opset_imports)


def inline_calls(edit: Transaction, calls: Iterable[Node], progress: Progress = SILENT) -> int:
    """Inline calls and the nested calls that appear; returns how many. Functions without calls are then removed.

    ModelError for recursion.
    """
    model = edit.model
    inlined = _inline(edit, calls, progress)
    left = set(inlined)
    while idle := left - {call.operator for call in callers_of(model, left)}:  # a removed one may have called others
        edit.do(SetField(model, "functions", tuple(f for f in model.functions if f.key not in idle)))
        left -= idle
    return inlined.total()


def inline_all(edit: Transaction, progress: Progress = SILENT) -> int:
    """Inline every call and remove all functions; returns the number of calls. ModelError for recursion."""
    calls = callers_of(edit.model, {f.key for f in edit.model.functions})
    outside = [n for n in calls if n.graph is None or not isinstance(n.graph.root.owner, Function)]
    inlined = _inline(edit, outside, progress)
    edit.do(SetField(edit.model, "functions", ()))
    return inlined.total()


_MOST_INLINED, _MOST_INLINED_NODES = 100_000, 2_000_000  # calls, and nodes that inlining creates


def _inline(edit: Transaction, calls: Iterable[Node], progress: Progress) -> Counter[Operator]:
    """Inline calls in first-in, first-out order; returns how often each function was called."""
    calls = list(calls)
    sizes = _inlined_sizes(edit.model)
    many, nodes = (sum(sizes.get(call.operator, (1, 1))[part] for call in calls) for part in (0, 1))
    if many > _MOST_INLINED or nodes > _MOST_INLINED_NODES:
        limits = f"at most {_MOST_INLINED:,} calls and {_MOST_INLINED_NODES:,} nodes are inlined at once"
        raise ModelError("The functions would become too large", f"{many:,} calls make {nodes:,} nodes; {limits}.")
    pending, inlined = deque(calls), Counter[Operator]()
    while pending:
        call = pending.popleft()
        progress.report(inlined.total(), many)
        inlined[call.operator] += 1
        copies = inline_call(edit, call)
        inner = (node for copy in copies for body in copy.bodies for graph in body.walk() for node in graph.nodes)
        pending += [node for node in (*copies, *inner) if node.operator in sizes]
    return inlined


def inlined_node_count(model: Model) -> int:
    """Return the number of nodes of the main graph with every call inlined. ModelError for recursion; reads no file."""
    sizes = _inlined_sizes(model)
    return sum(sizes.get(node.operator, (1, 1))[1] for graph in model.graph.walk() for node in graph.nodes)


def _inlined_sizes(model: Model) -> dict[Operator, tuple[int, int]]:
    """Return `expanded_sizes` of the functions of a model. ModelError for recursion."""
    sizes = expanded_sizes(operators_in(model))
    stuck = next((f for f in model.functions if f.key not in sizes), None)
    if stuck is not None:
        raise ModelError(f"Function {stuck.name} calls itself", "Recursive functions cannot be inlined.", stuck)
    return sizes
