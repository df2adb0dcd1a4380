"""Rules about a model as a whole, and the check of everything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.call_graph import expanded_sizes, operators_in
from onnx_workbench.model.checks.devices import check_configurations
from onnx_workbench.model.checks.duplicate_metadata import check_keys
from onnx_workbench.model.checks.graphs import (
    OTHER_NAMES,
    check_dead,
    check_declared,
    check_identifiers,
    check_initializer,
    check_interface,
    check_names,
    check_node_names,
    check_order,
    is_identifier,
    names_around,
)
from onnx_workbench.model.checks.nodes import check_node
from onnx_workbench.model.checks.partial_models import concerning
from onnx_workbench.model.checks.problem import Fix, Problem, error, errors_first, info, warning
from onnx_workbench.model.checks.texts import check_texts
from onnx_workbench.model.checks.versions import check_contents, least_ir_version, raise_ir_version
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo
from onnx_workbench.model.ir.name_index import NameIndex
from onnx_workbench.model.progress import SILENT, Progress

NEWEST_IR_VERSION = 14

_REVERSE_DOMAIN = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
_BETWEEN_CHECKS = 32  # nodes, each of which takes up to 0.1 ms; an edit waits as long
NodeProblems = dict[Node, tuple[Problem, ...]]  #: What the rules about one node find, by node.


def check_model(model: Model) -> list[Problem]:
    """Check the whole model; problems by graph, worst first. Linear in the size of the model."""
    return errors_first(concerning(model, problems_of(model, {})))


def problems_of(model: Model, nodes: NodeProblems, progress: Progress = SILENT) -> Iterator[Problem]:
    """Yield all problems of a model, graph by graph.

    The rules about one node, which take most of the time, are checked for nodes that are not in `nodes`, and their
    problems are added to it.
    """
    yield from check_properties(model, progress)
    names: dict[Graph, set[str]] = {}
    for graph in model.graphs(progress):
        NameIndex.prepare(graph, progress)
        yield from check_names(graph, names_around(graph, names, progress), progress)
        yield from check_node_names(graph, progress)
        yield from check_order(graph, progress)
        yield from check_interface(graph, model, progress)
        yield from check_declared(graph)
        for value in progress.paced(graph.initializers):
            yield from check_initializer(graph, value, model)
        imports = graph.opset_imports
        for node in progress.paced(graph.nodes, _BETWEEN_CHECKS):
            of_node = nodes.get(node)
            if of_node is None:
                of_node = nodes[node] = tuple(check_node(node, imports, model))
            yield from of_node
        yield from check_dead(graph, progress)
        yield from check_identifiers(graph, progress)


def check_properties(model: Model, progress: Progress = SILENT) -> Iterator[Problem]:
    """Check versions, imports, functions, devices and training.

    Cheap, except for a walk over all nodes in models with functions, device configurations or unused imports.
    """
    if model.ir_version < 1:
        least = least_ir_version(model)
        yield error(
            "ir-version",
            f"The IR version is {model.ir_version}",
            model,
            "It must be 1 or more.",
            raise_ir_version(least),
        )
    elif model.ir_version > NEWEST_IR_VERSION:
        yield warning(
            "ir-version",
            f"IR version {model.ir_version} is newer than known here",
            model,
            f"The newest known version is {NEWEST_IR_VERSION}.",
        )
    if not model.domain:
        detail = "The specification requires a reverse domain name, such as org.example."
        yield info("model-domain", "The model has no domain", model, detail)
    elif not _REVERSE_DOMAIN.fullmatch(model.domain):
        detail = "The specification requires a reverse domain name, such as org.example."
        yield info("model-domain", f"The model's domain, {model.domain}, is not a domain name", model, detail)
    yield from check_texts(model, "the model", _texts_of_model(model))
    yield from _check_graph_names(model, progress)
    yield from _check_imports(model, progress)
    yield from _check_functions(model, progress)
    yield from check_configurations(model)
    yield from check_contents(model)
    yield from check_keys(model, "The model")
    for function in model.functions:
        yield from check_keys(function, f"Function {function.name}")
        texts = (("name", function.name), ("domain", function.domain), ("description", function.doc_string))
        yield from check_texts(function, f"function {function.name}", texts)
    for training in model.training_info:
        yield from _check_training(model, training)
    setters = Counter(key for training in model.training_info for key in dict(training.update_binding))
    for key in (key for key, count in setters.items() if count > 1):
        yield error(
            "training-binding", f"Several training steps update {key}", model, "Each variable is updated by one step."
        )


def _texts_of_model(model: Model) -> Iterator[tuple[str, str]]:
    yield "producer", model.producer_name
    yield "producer's version", model.producer_version
    yield "domain", model.domain
    yield "description", model.doc_string
    for key, value in model.metadata.items():
        yield "metadata key", key
        yield f"metadata {key}", value


def _check_graph_names(model: Model, progress: Progress) -> Iterator[Problem]:
    """Report graphs that share a name, which the specification requires to be unique although many exporters repeat
    it.
    """
    seen: dict[str, Graph] = {}
    reported: set[str] = set()
    for graph in model.graphs(progress):
        yield from check_texts(graph, "a graph", (("name", graph.name), ("description", graph.doc_string)))
        if not graph.name or isinstance(graph.owner, Function) or graph.name in reported:
            continue
        if seen.setdefault(graph.name, graph) is not graph:
            reported.add(graph.name)
            yield info("duplicate-graph", f"Several graphs are named {graph.name}", graph, "Their names should differ.")


def _check_imports(model: Model, progress: Progress) -> Iterator[Problem]:
    if not model.opset_imports and model.ir_version >= 3:
        newest = schemas.newest_opset()
        yield error(
            "opset-import",
            "The model imports no operator set",
            model,
            "Required since IR version 3.",
            _import_fix(f"Import ai.onnx version {newest}", "", newest),
        )
    for domain, version in model.opset_imports.items():
        if version < 1:
            yield error("opset-version", f"{domain or 'ai.onnx'} is imported at version {version}", model)
        elif domain in ("", "ai.onnx.ml") and version > schemas.newest_opset(domain):
            yield warning(
                "opset-version",
                f"{domain or 'ai.onnx'} {version} is newer than known here",
                model,
                f"The newest known is {schemas.newest_opset(domain)}.",
            )
    for domain in _unused_domains(model, progress):
        yield info(
            "unused-import",
            f"{domain} is imported but not used",
            model,
            "",
            _import_fix(f"Remove the import of {domain}", domain, None),
        )


def _unused_domains(model: Model, progress: Progress) -> Iterable[str]:
    """Return imported domains without a function and without nodes outside of functions, which have their own
    imports.
    """
    having = {f.domain for f in model.functions}
    unused = {d: None for d in model.opset_imports if d and d not in having}
    if not unused:
        return ()
    for graph in model.graphs(progress):
        if isinstance(graph.root.owner, Function):
            continue
        for node in progress.paced(graph.nodes):
            if node.domain in unused:
                del unused[node.domain]
                if not unused:
                    return ()
    return unused


def _import_fix(title: str, domain: str, version: int | None) -> Fix:
    """Return the fix that imports a domain or (None) removes the import, keeping other imports as they are then."""

    def apply(edit: Transaction) -> None:
        imports = {d: v for d, v in edit.model.opset_imports.items() if d != domain}
        if version is not None:
            imports[domain] = version
        edit.do(SetField(edit.model, "opset_imports", imports))

    return Fix(title, apply)


def _check_functions(model: Model, progress: Progress) -> Iterator[Problem]:
    seen: dict[tuple[str, str, str], Function] = {}
    for function in model.functions:
        if seen.setdefault(function.key, function) is not function:
            yield error(
                "duplicate-function",
                f"Two functions are {function.domain}::{function.name}",
                function,
                "Domain, name and overload must differ. The first one is what nodes call here.",
                _removal_of(function),
            )
        if not function.name:
            yield error("function-name", "A function has no name", function, "Nothing can call it.")
        names = [*function.attributes, *(a.name for a in function.attribute_defaults)]
        yield from _check_words(function, names)
        if len(set(names)) < len(names):
            yield error(
                "function-attribute",
                f"{function.name} lists an attribute twice",
                function,
                "The names of a function's attributes must differ.",
                Fix(f"List each attribute of {function.name} once", partial(_list_once, function=function)),
            )
        if function.domain not in model.opset_imports:
            domain = function.domain
            yield error(
                "opset-import",
                f"The domain {domain or 'ai.onnx'} of function {function.name} is not imported",
                function,
                "A model must import the domains of its functions.",
                _import_fix(f"Import {domain}", domain, 1),
            )
    yield from _check_recursion(model, progress)


def _check_words(function: Function, names: list[str]) -> Iterator[Problem]:
    """Check the parameter names of a function."""
    values = {value.name for value in (*function.body.inputs, *function.body.outputs)}
    for name in sorted(values.intersection(names)):
        yield info(
            "function-attribute",
            f"{function.name} has an attribute and an input or output named {name}",
            function,
            "Attributes, inputs and outputs must have different names.",
        )
    odd = sorted({name for name in (function.name, *names) if not is_identifier(name)})
    if odd:
        message = f"Function {function.name} has names that are not C identifiers: {', '.join(odd)}"
        yield info("identifier", message, function, OTHER_NAMES)


def _removal_of(function: Function) -> Fix:
    def remove(edit: Transaction) -> None:
        kept = tuple(other for other in edit.model.functions if other is not function)
        edit.do(SetField(edit.model, "functions", kept))

    return Fix(f"Remove the second {function.name}, which nothing calls", remove)


def _list_once(edit: Transaction, function: Function) -> None:
    """List each attribute once; one with a default keeps it."""
    defaults = {a.name: a for a in reversed(function.attribute_defaults)}
    kept = tuple(a for a in function.attribute_defaults if defaults[a.name] is a)
    without = tuple(dict.fromkeys(name for name in function.attributes if name not in defaults))
    edit.do(SetField(function, "attribute_defaults", kept))
    edit.do(SetField(function, "attributes", without))


def _check_recursion(model: Model, progress: Progress) -> Iterator[Problem]:
    finite = expanded_sizes(operators_in(model, progress))
    for key, function in {f.key: f for f in model.functions}.items():
        if key not in finite:
            yield error("recursion", f"Function {function.name} calls itself", function, "Functions must not recurse.")


def _check_training(model: Model, training: TrainingInfo) -> Iterator[Problem]:
    if training.initialization is not None and training.initialization.inputs:
        given = ", ".join(value.name for value in training.initialization.inputs)
        detail = "An initialization graph has no inputs."
        yield error("training-input", f"The initialization has inputs: {given}", training.initialization, detail)
    targets = {v.name for v in model.graph.initializers}
    if training.algorithm is not None:
        targets |= {v.name for v in training.algorithm.initializers}
    for binding, graph, name in (
        (training.initialization_binding, training.initialization, "initialization"),
        (training.update_binding, training.algorithm, "update"),
    ):
        sources = (graph, model.graph) if name == "update" else (graph,)
        outputs = {v.name for source in sources if source is not None for v in source.outputs}
        keys = [key for key, _ in binding]
        if len(set(keys)) < len(keys):
            yield error("training-binding", f"The {name} binding sets a name twice", model)
        for key, output in binding:
            remove = partial(_unbind, training, f"{name}_binding", (key, output))
            fix = Fix(f"Remove the {name} binding of {key}", remove)
            if key not in targets:
                advice = "No initializer has that name."
                yield error("training-binding", f"The {name} binding sets {key}", model, advice, fix)
            if output not in outputs:
                advice = "No output has that name."
                yield error("training-binding", f"The {name} binding takes {output}", model, advice, fix)


def _unbind(training: TrainingInfo, field: str, entry: tuple[str, str], edit: Transaction) -> None:
    edit.do(SetField(training, field, tuple(other for other in getattr(training, field) if other != entry)))
