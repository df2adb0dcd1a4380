"""Copy and paste of nodes, and merging of another model. `extract` makes models out of parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.call_graph import Operator, functions_used
from onnx_workbench.model.analysis.scoping import dependencies, makes_cycle, names_taken, unique_name, visible_values
from onnx_workbench.model.diff import do_the_same
from onnx_workbench.model.edits.fresh_names import FreshNames
from onnx_workbench.model.edits.functions import boundary, constants_taken, in_graph_order
from onnx_workbench.model.edits.initializers import define_constant
from onnx_workbench.model.edits.nodes import import_domains, refuse_recursion, replace_uses
from onnx_workbench.model.edits.values import ensure_order, rename_value, why_not_connect
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import InsertNode, SetField, SetGraphInputs, SetGraphOutputs, SetInitializer
from onnx_workbench.model.ir.attributes import Attribute, is_same
from onnx_workbench.model.ir.devices import DeviceConfiguration
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, QuantizationAnnotation, Value, Values
from onnx_workbench.model.ir.tensors import ArrayTensor, Tensor
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.model.ir.attributes import AttributeValue


@dataclass(slots=True)
class Fragment:
    """Nodes on the clipboard, as a graph whose inputs are the values captured from outside.

    `along` are Constant nodes that were copied with them although not selected, like initializers.
    """

    graph: Graph
    functions: tuple[Function, ...] = ()
    opset_imports: Mapping[str, int] = field(default_factory=dict)
    along: Collection[Node] = ()
    configurations: tuple[DeviceConfiguration, ...] = ()

    @property
    def size(self) -> int:
        """Number of nodes that were selected."""
        return len(self.graph.nodes) - len(self.along)


def copy(nodes: Collection[Node], progress: Progress = SILENT) -> Fragment:
    """Return a self-contained copy of nodes of one graph, with the initializers, Constants and functions they use."""
    graph, chosen = in_graph_order(nodes)
    progress.check()
    constants = constants_taken(chosen, graph)
    progress.check()
    ordered = [*constants, *chosen]
    inputs, outputs = boundary(ordered)
    model = graph.model
    part = part_of(ordered, inputs, outputs, progress=progress)
    cloner = Cloner(progress=progress)
    return Fragment(
        part,
        tuple(map(cloner.function, functions_used(model, ordered))) if model is not None else (),
        dict(graph.opset_imports),
        tuple(islice(part.nodes, len(constants))),
        model.configurations if model is not None else (),
    )


def part_of(
    nodes: Sequence[Node],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    *,
    substitute: Callable[[Attribute], Attribute | None] | None = None,
    progress: Progress = SILENT,
) -> Graph:
    """Return a new graph with copies of nodes; constant values become initializers, other outer values become inputs.

    `substitute` maps attributes of the enclosing function to the values that replace references to them.
    """
    cloner = Cloner(substitute=substitute, progress=progress)
    part = Graph()
    formal = []
    for value in inputs:
        inner = cloner.value(value)
        inner.graph = part
        if value.initializer is not None:
            inner.initializer = None
            SetInitializer(part, inner, value.initializer).apply()
        else:
            formal.append(inner)
    part.inputs = Values(formal)
    for node in progress.paced(cloner.nodes(nodes)):
        InsertNode(part, node).apply()
    SetGraphOutputs(part, tuple(v for v in (cloner.values[o] for o in outputs) if v is not None)).apply()
    sources = dict.fromkeys(value.graph for value in cloner.values if value.graph is not None)
    part.declared = Values(c for g in sources for v in g.declared if (c := cloner.values.get(v)) and c.graph is part)
    part.quantization_annotations = tuple(a for g in sources for a in _annotations(g, cloner))
    return part


def _annotations(graph: Graph, cloner: Cloner) -> Iterator[QuantizationAnnotation]:
    """Copy the quantization annotations whose values were all copied."""
    for annotation in graph.quantization_annotations:
        value = cloner.values.get(annotation.value)
        parameters = [(key, cloner.values.get(own)) for key, own in annotation.parameters]
        copied = [(key, copy) for key, copy in parameters if copy is not None]
        if value is not None and len(copied) == len(parameters):
            yield QuantizationAnnotation(value, tuple(copied), annotation.source)


def paste(edit: Transaction, graph: Graph, fragment: Fragment, *, before: Node | None = None) -> list[Node]:
    """Insert a fragment, connecting its inputs to values of the same name; inputs without one are left out.

    Inputs are also left out where connecting would make a cycle through the node that holds the graph. Producers are
    moved forward where they would come too late. Functions that differ from those of the same key here get free names.
    Initializers and Constants get free names, unless an identical one exists under the same name. Returns the inserted
    nodes without such Constants.
    """
    calls = _copy_operators(edit, graph, fragment)
    here = visible_values(graph)
    cloner = FreshNames().cloner(graph)
    holder = graph.owner if isinstance(graph.owner, Node) else None
    for value in fragment.graph.inputs:
        outer = here.get(value.name)
        is_cycle = holder is not None and outer is not None and makes_cycle(holder, outer)
        cloner.values[value] = None if is_cycle else outer
    for value in fragment.graph.initializers:
        present = here.get(value.name)
        if present is not None and present.initializer is value.initializer:
            cloner.values[value] = present
        else:
            _copy_constant(edit, graph, value, cloner)
    shared = {n for n in fragment.along if _share(n, here, cloner)}
    copies = cloner.nodes([node for node in fragment.graph.nodes if node not in shared])
    _call_instead(copies, calls)
    refuse_recursion(edit.model, graph, copies)
    for node in copies:
        edit.do(InsertNode(graph, node, before))
    for node in copies:
        for value in dependencies(node):
            ensure_order(edit, value, node)
    return copies[len(fragment.along) - len(shared) :]


def _share(constant: Node, here: Mapping[str, Value], cloner: Cloner) -> bool:
    """Reuse an existing Constant in place of its copy, if they are identical."""
    output = constant.outputs[0] if constant.outputs else None
    present = None if output is None else here.get(output.name)
    producer = None if present is None else present.producer
    if output is None or producer is None or producer.op_type != "Constant" or producer.domain:
        return False
    ours, theirs = producer.attributes, constant.attributes
    if ours.keys() != theirs.keys() or not all(_is_one(ours[name].value, theirs[name].value) for name in ours):
        return False
    cloner.values[output] = present
    return True


def _copy_operators(edit: Transaction, graph: Graph, fragment: Fragment) -> Mapping[Operator, Operator]:
    """Add the functions, opset imports and device configurations that the fragment's nodes need.

    Returns the renamed functions: old key to new key.
    """
    calls = _free_keys(edit.model, fragment.functions)
    functions = [f for f in fragment.functions if f.key in calls or edit.model.function(*f.key) is None]
    _copy_configurations(edit, fragment, functions)
    _copy_functions(edit, functions, calls, fragment.opset_imports)
    _copy_imports(edit, graph, fragment.opset_imports, fragment.graph)
    return calls


def _copy_configurations(edit: Transaction, fragment: Fragment, functions: Iterable[Function]) -> None:
    present = edit.model.configurations
    here = {configuration.name for configuration in present}
    missing = [configuration for configuration in fragment.configurations if configuration.name not in here]
    if not missing:
        return
    bodies = (fragment.graph, *(f.body for f in functions))
    nodes = (node for body in bodies for level in body.walk() for node in level.nodes if node.is_spread)
    used = {part.configuration_id for node in nodes for part in node.device_configurations}
    used_configurations = tuple(configuration for configuration in missing if configuration.name in used)
    if used_configurations:
        edit.do(SetField(edit.model, "configurations", (*present, *used_configurations)))


def _free_keys(model: Model, functions: Iterable[Function]) -> Mapping[Operator, Operator]:
    """Choose free keys for functions that differ from those present, or that call one that does."""
    present = {f: here for f in functions if (here := model.function(*f.key)) not in (None, f)}
    other = {f.key for f, here in present.items() if here is not None and not do_the_same(here, f)}
    calls = {f.key: {node.operator for level in f.body.walk() for node in level.nodes} for f in present}
    while more := {key for key, called in calls.items() if key not in other and not other.isdisjoint(called)}:
        other |= more
    taken = {f.name for f in (*model.functions, *functions)}
    keys: dict[Operator, Operator] = {}
    for domain, name, overload in (f.key for f in present if f.key in other):
        free = unique_name(name, taken)
        taken.add(free)
        keys[domain, name, overload] = (domain, free, overload)
    return keys


def _copy_functions(
    edit: Transaction, functions: Iterable[Function], calls: Mapping[Operator, Operator], imports: Mapping[str, int]
) -> None:
    model = edit.model
    copies = [Cloner().function(function) for function in functions]
    for copy in copies:
        copy.domain, copy.name, copy.overload = calls.get(copy.key, copy.key)
        copy.body.name = copy.name
        _call_instead(copy.body.nodes, calls)
    if copies:
        edit.do(SetField(model, "functions", (*model.functions, *copies)))
    # pasted into a function's body too, which has its own imports: the model imports the domains of its functions
    import_domains(edit, model, {copy.domain: imports.get(copy.domain, 1) for copy in copies})


def _call_instead(copies: Iterable[Node], calls: Mapping[Operator, Operator]) -> None:
    """Redirect the calls in copies (not in a model yet), subgraphs included, to other functions."""
    for node in copies if calls else ():
        levels = (level for body in node.bodies for level in body.walk())
        for call in (node, *(inner for level in levels for inner in level.nodes)):
            call.domain, call.op_type, call.overload = calls.get(call.operator, call.operator)


def _copy_imports(edit: Transaction, graph: Graph, imports: Mapping[str, int], part: Graph) -> None:
    used = {node.domain: None for level in part.walk() for node in level.nodes}
    import_domains(edit, graph.importer, {domain: imports.get(domain, schemas.newest_opset(domain)) for domain in used})


def merge(
    edit: Transaction,
    graph: Graph,
    other: Model,
    connections: Mapping[str, str] | None = None,
    *,
    feeding: Mapping[str, str] | None = None,
    prefix: str = "",
    keep_outputs: bool = True,
    progress: Progress = SILENT,
) -> list[Node]:
    """Merge another model's main graph into `graph`.

    `connections` maps names of its inputs to names of values here; None connects by equal names. `feeding` maps names
    of inputs here to names of its outputs, which replace those inputs. Its unconnected inputs become inputs here, its
    outputs become outputs; without `keep_outputs`, outputs that feed the other side are dropped. Clashing names get
    `prefix`, functions a number; identical Constants, initializers and functions are not duplicated.
    ModelError for operators whose meaning differs between the two opset versions.
    """
    _refuse_other_meaning(graph, other)
    part = other.graph
    here = visible_values(graph)
    links = dict(connections) if connections is not None else _equal_names(part, here)
    cloner = _prefixed(graph, prefix, progress)
    _copy_inputs(edit, graph, part, cloner, {name: (value, here.get(value)) for name, value in links.items()})
    shared = _copy_constants(edit, graph, part, cloner, here)
    fragment = Fragment(part, other.functions, other.opset_imports, configurations=other.configurations)
    calls = _copy_operators(edit, graph, fragment)
    copies = cloner.nodes([node for node in part.nodes if node not in shared])
    _call_instead(copies, calls)
    for node in progress.paced(copies, of=len(copies)):
        edit.do(InsertNode(graph, node, None))
    fed = _copy_outputs(edit, graph, part, cloner, feeding or {})
    _restore_input_names(edit, graph, part, cloner)
    if not keep_outputs:
        inner = {*fed, *(here[name] for name in links.values())}
        edit.do(SetGraphOutputs(graph, tuple(value for value in graph.outputs if value not in inner)))
    return copies


def _copy_outputs(
    edit: Transaction, graph: Graph, part: Graph, cloner: Cloner, feeding: Mapping[str, str]
) -> list[Value]:
    """Declare the part's values, add its outputs once each, and connect outputs to inputs here.

    Returns the outputs that feed an input here.
    """
    _copy_declarations(edit, graph, part, cloner)
    copy_by_name = {output.name: cloner.values.get(output) for output in part.outputs}
    results = dict.fromkeys((*graph.outputs, *(value for value in copy_by_name.values() if value is not None)))
    edit.do(SetGraphOutputs(graph, tuple(results)))
    return [_feed(edit, graph, name, copy_by_name.get(output), output) for name, output in feeding.items()]


def _equal_names(part: Graph, here: Mapping[str, Value]) -> dict[str, str]:
    return {v.name: v.name for v in part.inputs if v.name in here and v.initializer is None}


def _copy_inputs(
    edit: Transaction, graph: Graph, part: Graph, cloner: Cloner, links: Mapping[str, tuple[str, Value | None]]
) -> None:
    """Replace each input by the value that feeds it; `links` maps its name to that value's name and the value."""
    added = []
    for value in part.inputs:
        name, target = links.get(value.name, ("", None))
        if value.name in links and target is None:
            raise ModelError(f"There is no value {name!r} here", f"It should feed {value.name}.")
        if target is not None:
            cloner.values[value] = target
        elif value.initializer is None:
            added.append(cloner.value(value))
    if added:
        edit.do(SetGraphInputs(graph, (*graph.inputs, *added)))


def _copy_constants(
    edit: Transaction, graph: Graph, part: Graph, cloner: Cloner, here: Mapping[str, Value]
) -> Collection[Node]:
    """Add initializers unless an identical one exists; returns the Constant nodes reused for them.

    Initializers that are also inputs (IR version < 4) become inputs.
    """
    inputs = []
    for value in part.initializers:
        if value in cloner.values:
            continue
        present = here.get(value.name)
        if present is not None and _holds_the_same(present, value):
            cloner.values[value] = present
        else:
            constant = _copy_constant(edit, graph, value, cloner)
            if value.is_input and not constant.is_input and not isinstance(graph.owner, Function):
                inputs.append(constant)
    if inputs:
        edit.do(SetGraphInputs(graph, (*graph.inputs, *inputs)))
    return {n for n in part.nodes if n.op_type == "Constant" and _share(n, here, cloner)}


def _copy_constant(edit: Transaction, graph: Graph, value: Value, cloner: Cloner) -> Value:
    constant = cloner.value(value)
    tensor, constant.initializer = constant.initializer, None
    assert tensor is not None
    define_constant(edit, graph, constant, tensor)
    return constant


def _copy_declarations(edit: Transaction, graph: Graph, part: Graph, cloner: Cloner) -> None:
    """Add the value_info and quantization annotations that the other model declares for the merged values."""
    here = set(graph.declared)
    new = [copy for value in part.declared if (copy := cloner.values.get(value)) and copy not in here]
    if new:
        edit.do(SetField(graph, "declared", (*graph.declared, *new)))
    annotated = {annotation.value for annotation in graph.quantization_annotations}
    annotations = [a for a in _annotations(part, cloner) if a.value not in annotated]
    if annotations:
        edit.do(SetField(graph, "quantization_annotations", (*graph.quantization_annotations, *annotations)))


def _holds_the_same(present: Value, value: Value) -> bool:
    """Return whether two values are the same constant."""
    ours, theirs = present.initializer, value.initializer
    return ours is not None and present.is_input == value.is_input and _is_one(ours, theirs)


def _is_one(ours: AttributeValue, theirs: AttributeValue) -> bool:
    """Return whether two constants are the same tensor or have equal elements."""
    if not isinstance(ours, Tensor) or not isinstance(theirs, Tensor) or ours is theirs:
        return is_same(ours, theirs)
    is_read_from_one = type(ours) is type(theirs) is not ArrayTensor and ours.source is theirs.source
    return is_read_from_one or _has_elements_of(ours, theirs)


_COMPARED_AT_ONCE = 1 << 20  # elements


def _has_elements_of(ours: Tensor, theirs: Tensor) -> bool:
    """Return whether two constants are equal. Reads equal ones fully, and usually only the start of unequal ones."""
    if (ours.element_type, ours.shape) != (theirs.element_type, theirs.shape) or ours.problem or theirs.problem:
        return False
    for start in range(0, ours.size, _COMPARED_AT_ONCE):
        stop = min(start + _COMPARED_AT_ONCE, ours.size)
        a, b = (tensor.read(start, stop) for tensor in (ours, theirs))
        if a.tolist() != b.tolist() if a.dtype == object else a.tobytes() != b.tobytes():
            return False
    return True


def _restore_input_names(edit: Transaction, graph: Graph, part: Graph, cloner: Cloner) -> None:
    """Give the part's inputs their names back that an input here had, which was fed and is gone."""
    taken = names_taken(graph)
    for value in part.inputs:
        copy = cloner.values.get(value)
        if copy is not None and copy in graph.inputs and copy.name != value.name and value.name not in taken:
            rename_value(edit, copy, value.name)


def _feed(edit: Transaction, graph: Graph, name: str, value: Value | None, output: str) -> Value:
    """Replace the input of this name by a value."""
    old = next((v for v in graph.inputs if v.name == name), None)
    if old is None or value is None:
        missing = f"no input {name!r} here" if old is None else f"no output {output!r} in the other model"
        raise ModelError(f"There is {missing}", f"{output} was to feed {name}.")
    users = list(old.consumers)
    for node in users:
        reason = why_not_connect(node, value)
        if reason:
            raise ModelError(f"{output} cannot feed {name}", reason, node)
    replace_uses(edit, old, value)
    for node in users:
        ensure_order(edit, value, node)
    edit.do(SetGraphInputs(graph, tuple(v for v in graph.inputs if v is not old)))
    if output == name:  # the name was taken while the input had it
        rename_value(edit, value, name)
    return value


def _prefixed(graph: Graph, prefix: str, progress: Progress) -> Cloner:
    taken, names = names_taken(graph), FreshNames()
    return Cloner(
        rename=lambda name: names.value(graph, prefix + name if prefix and name in taken else name),
        rename_node=lambda name: names.node(graph, prefix + name) if name else name,
        progress=progress,
    )


def nodes_of_other_meaning(model: Model, imports: Mapping[str, int]) -> Iterator[Node]:
    """Yield the nodes of the main graph that change meaning under other opset imports. Functions have their own."""
    for level in model.graph.walk():
        for node in level.nodes:
            old, new = model.opset_imports.get(node.domain), imports.get(node.domain)
            if old is None or new is None or old == new:
                continue
            if schemas.has_changed(node.op_type, node.domain, old, new):
                yield node


def _refuse_other_meaning(graph: Graph, other: Model) -> None:
    node = next(nodes_of_other_meaning(other, graph.opset_imports), None)
    if node is not None:
        theirs, ours = (imports[node.domain] for imports in (other.opset_imports, graph.opset_imports))
        detail = f"The other model imports opset {theirs}, this one {ours}; convert one of them first."
        raise ModelError(f"{node.op_type} is different here", detail, node)
