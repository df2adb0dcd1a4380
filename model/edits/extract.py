"""Extract a submodel: a selection, everything between values, or the two sides of a split.

A `Cut` describes the new model for a preview; `cut_out` creates it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from onnx_workbench.model.analysis.call_graph import functions_used
from onnx_workbench.model.analysis.scoping import dependencies, nodes_upstream
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.edits.copy_paste import part_of
from onnx_workbench.model.edits.declare_types import declarable, is_shapeless, size_names
from onnx_workbench.model.edits.functions import boundary, constants_taken, in_graph_order
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.steps import SetGraphInputs
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import TensorType
from onnx_workbench.model.progress import SILENT, Progress


@dataclass(frozen=True, slots=True)
class Extraction:
    """Nodes of one graph in graph order, with the inputs, outputs and constants of the extracted model."""

    graph: Graph
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: tuple[Value, ...] = ()


def cut_selection(nodes: Collection[Node]) -> Extraction:
    """Extract nodes: outer values become inputs, values used outside or unused become outputs. Constants are
    included.
    """
    graph, chosen = in_graph_order(nodes)
    along = set(constants_taken(chosen, graph))
    inside = along.union(chosen)
    ordered = [n for n in graph.nodes if n in inside] if along else chosen
    taken, outputs = boundary(ordered)
    ends = [v for n in chosen for v in n.outputs if v is not None and not v.uses]
    if not outputs and not ends:
        raise ModelError("The selection has no outputs", "None of the selected nodes has an output.")
    return _cut(graph, ordered, taken, [*(v for v in outputs if v.producer not in along), *ends])


def cut_between(graph: Graph, inputs: Collection[Value], outputs: Collection[Value]) -> Extraction:
    """Extract the nodes that compute `outputs` from `inputs`; outer values that subgraphs use become inputs too.

    ModelError names graph inputs that would be needed beyond the given ones.
    """
    if not outputs:
        raise ModelError("No outputs were given", "Name the values the new model should compute.")
    given = set(inputs)
    uncomputed = next((v for v in outputs if v in given or v.initializer is not None), None)
    if uncomputed is not None:
        what = "an input" if uncomputed in given else "a constant"
        raise ModelError(f"{uncomputed.name} is {what}", "Outputs of the new model are values it computes.", uncomputed)
    nodes: set[Node] = set()
    pending = [v.producer for v in outputs if v.producer is not None]
    while pending:
        node = pending.pop()
        if node in nodes or node.graph is not graph:
            continue
        nodes.add(node)
        pending.extend(v.producer for v in dependencies(node) if v not in given and v.producer is not None)
    needed, _ = boundary(nodes)
    extra = [v for v in (*needed, *outputs) if v not in given and v.producer is None and v.initializer is None]
    if extra:
        names = ", ".join(dict.fromkeys(v.name for v in extra))
        raise ModelError("The chosen inputs are not sufficient", f"Also needed: {names}.", extra[0])
    wanted = set(needed)
    used = [v for v in inputs if v in wanted]
    return _cut(graph, [n for n in graph.nodes if n in nodes], [*used, *(v for v in needed if v not in given)], outputs)


def cut_in_two(graph: Graph, values: Sequence[Value]) -> tuple[Extraction, Extraction]:
    """Split a graph at values. The first part computes them and every other earlier value that the second part uses.

    Constants used on both sides are in both parts; unused inputs and constants are in the first.
    """
    producers = [v.producer for v in values if v.producer is not None and v.graph is graph]
    if not producers:
        raise ModelError("Nothing comes before", "Choose values that nodes compute.")
    ahead = nodes_upstream(producers, graph)
    behind = [n for n in graph.nodes if n not in ahead]
    before = [n for n in graph.nodes if n in ahead]
    along = {n for n in constants_taken(behind, graph) if not any(v in values for v in n.outputs)}
    constants = {v for n in along for v in n.outputs}
    taken = [v for v in boundary(behind)[0] if v not in constants]
    crossing = [v for v in (*values, *taken) if v.producer in ahead]
    results = [v for v in graph.outputs if v.producer in ahead]
    ends = [v for v in graph.outputs if v.producer not in ahead]
    passed = [v for v in ends if v.producer is None]  # inputs and constants that are outputs
    if len(passed) == len(ends):
        ends += [v for n in behind for v in n.outputs if v is not None and not v.uses]
    if not behind:
        raise ModelError("Nothing comes after", "Everything is needed to compute the chosen values.")
    idle = [v for v in dict.fromkeys((*graph.inputs, *graph.initializers)) if not v.uses]
    taken += passed
    first = _cut(graph, before, _inputs_in_order(graph, [*boundary(before)[0], *idle]), [*crossing, *results])
    used = set(taken)
    rest = _inputs_in_order(graph, taken)
    second = [n for n in graph.nodes if n in along or n not in ahead] if along else behind
    return first, _cut(graph, second, [*(v for v in crossing if v in used), *rest], ends)


def _inputs_in_order(graph: Graph, taken: Iterable[Value]) -> list[Value]:
    """Order the values that enter a part: the graph's own inputs last, in graph order."""
    place = {value: index for index, value in enumerate(graph.inputs)}
    return sorted(taken, key=lambda value: place.get(value, -1))


def _cut(graph: Graph, nodes: Sequence[Node], taken: Iterable[Value], outputs: Iterable[Value]) -> Extraction:
    inside = set(nodes)
    taken = list(dict.fromkeys(taken))
    here = set(taken)
    return Extraction(
        graph,
        tuple(nodes),
        tuple(v for v in taken if v.initializer is None),
        tuple(dict.fromkeys(v for v in outputs if v.producer in inside or (v.producer is None and v in here))),
        tuple(v for v in taken if v.initializer is not None),
    )


def cut_out(
    model: Model, cut: Extraction, type_of: TypeOf = lambda value: value.type, progress: Progress = SILENT
) -> Model:
    """Create the extracted model. Weights stay in the file until read; the source model does not change.

    Model and graph metadata are copied. `type_of` should know inferred types, as inputs and outputs must have one.
    References to attributes of the enclosing function become its defaults; ModelError names those without one.
    """
    graph = cut.graph
    part = part_of(
        cut.nodes, [*cut.inputs, *cut.constants], cut.outputs, substitute=_defaults(graph), progress=progress
    )
    part.name, part.doc_string, part.metadata = graph.name or "part", graph.doc_string, graph.metadata
    result = Model(part, ir_version=model.ir_version)
    for field in _TOLD:
        setattr(result, field, getattr(model, field))
    result.functions = tuple(Cloner(progress=progress).function(f) for f in functions_used(model, cut.nodes))
    for function in result.functions:
        function.model = result
    result.opset_imports = dict(graph.opset_imports)
    _declare_ends(part, cut, type_of, size_names(model))
    _keep_inputs(part, cut.constants)
    result.metadata = dict(model.metadata)
    result.source = model.source
    return result


def left_out(model: Model, graph: Graph, parts: Sequence[Model]) -> list[str]:
    """Return what is in no part of the main graph: training graphs, functions, inputs and constants without a use.

    Names, "training graphs" first; empty for parts of another graph.
    """
    if graph is not model.graph:
        return []
    called = set(functions_used(model, list(model.graph.nodes)))
    used = {v for graph in model.graph.walk() for node in graph.nodes for v in node.inputs}.union(model.graph.outputs)
    here = {v.name for part in parts for v in (*part.graph.inputs, *part.graph.initializers)}
    ends = dict.fromkeys((*model.graph.inputs, *model.graph.initializers))
    return [
        *(["training graphs"] if model.training_info else []),
        *(f"function {function.name}" for function in model.functions if function not in called),
        *(value.name for value in ends if value not in used and value.name not in here),
    ]


def require_types(part: Model, cut: Extraction) -> None:
    """Check that inputs and outputs of an extracted model have types and shapes, as those of a model must.

    Those that the original model lacks too are ignored. ModelError names the others.
    """
    ends_of_model = (*cut.graph.inputs, *cut.graph.outputs) if cut.graph.parent is None else ()
    ends = zip((*part.graph.inputs, *part.graph.outputs), (*cut.inputs, *cut.outputs), strict=False)
    lacking = [inner.name for inner, value in ends if value not in ends_of_model and _is_undeclared(inner)]
    if lacking:
        names = ", ".join(dict.fromkeys(lacking[:_MOST_NAMES])) + (" …" if len(lacking) > _MOST_NAMES else "")
        raise ModelError(
            f"The type or shape of {names} is not known",
            "Inputs and outputs of a model need one, and it cannot be inferred. Declare it, or infer types with a rule "
            "for the operator (infer --rule), and extract then.",
        )


_MOST_NAMES = 5


def _is_undeclared(value: Value) -> bool:
    return value.type is None or is_shapeless(value.type)


#: Metadata of a model, apart from what it computes.
_TOLD = ("producer_name", "producer_version", "domain", "model_version", "doc_string", "configurations")


def _declare_ends(part: Graph, cut: Extraction, type_of: TypeOf, names: Collection[str]) -> None:
    """Declare missing types and shapes of inputs and outputs."""
    for inner, value in (*zip(part.inputs, cut.inputs, strict=True), *zip(part.outputs, cut.outputs, strict=True)):
        if inner.type is None:
            kind = type_of(value)
            inner._type = _constant_type(inner) or (declarable(kind, None, names) if kind is not None else None)
        elif is_shapeless(inner.type) and isinstance(kind := type_of(value), TensorType) and kind.shape is not None:
            inner._type = declarable(kind, inner.type, names)


def _keep_inputs(part: Graph, constants: Sequence[Value]) -> None:
    """Keep constants that are also graph inputs (IR version < 4) as inputs."""
    names = {value.name for value in constants if value.is_input}
    if names:
        own = (value for value in part.initializers if value.name in names)
        SetGraphInputs(part, (*part.inputs, *own)).apply()


def _defaults(graph: Graph) -> Callable[[Attribute], Attribute | None] | None:
    """Map the attributes of a function to their defaults, for use outside of the function."""
    owner = graph.root.owner
    if not isinstance(owner, Function):
        return None
    defaults = {a.name: a for a in owner.attribute_defaults}

    def substitute(attribute: Attribute) -> Attribute | None:
        default = defaults.get(attribute.reference)
        if default is None:
            raise ModelError(
                f"{attribute.name} depends on the caller",
                f"It is the attribute {attribute.reference} of {owner.name}, which has no default; inline the call.",
                owner,
            )
        return replace(default, name=attribute.name, source=None)

    return substitute


def _constant_type(value: Value) -> TensorType | None:
    tensor = value.initializer
    return tensor.type if isinstance(tensor, Tensor) else None


def extract(model: Model, nodes: Collection[Node]) -> Model:
    """Extract these nodes as a new model, using declared types only."""
    return cut_out(model, cut_selection(nodes))
