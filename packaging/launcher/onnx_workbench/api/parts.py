"""Parts of models as models, and models put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx_workbench.api.files import model_of
from onnx_workbench.arguments import as_document, texts
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.exec.transform.reduce import Reduction
    from onnx_workbench.exec.values.arrays import RuntimeValue
    from onnx_workbench.model.convert.report import ConversionReport
    from onnx_workbench.model.history.document import Document


def extract(
    model: Model | Document,
    *,
    outputs: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    nodes: Sequence[str] | None = None,
    graph: str = "",
    checks: int = 1,
    progress: Progress = SILENT,
) -> Model:
    """Make a model of a part of another: what computes `outputs` from `inputs`, or some `nodes`, all by name.

    Without `inputs`, those of the graph that are needed stay its inputs. `graph` is a body or function by its name.
    The model that it comes from is not changed. On so many random inputs of it (`checks`) the part is compared with
    it, which takes most of the time; weights are read for that alone.

    ModelError: no such name; something that is needed is not among the inputs; it is not clear what is meant; the type
    or shape of an input or output is not known; or the part does not compute what the model does.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> part = ow.extract(model, outputs=[model.graph.nodes.first.outputs[0].name])
    >>> len(part.graph.nodes)
    1
    """
    from onnx_workbench.exec.inspect.self_check import require_agreement
    from onnx_workbench.exec.transform.extract import check_part, cut_parts
    from onnx_workbench.model.analysis.by_name import graph_named, named_in, nodes_named, values_named
    from onnx_workbench.model.analysis.scoping import visible_values
    from onnx_workbench.model.edits.extract import cut_between, cut_selection

    if (nodes is None) == (outputs is None):
        raise ModelError("It is not clear what to extract", "Give outputs, with inputs if you like, or nodes.")
    if nodes is not None and inputs is not None:
        raise ModelError("Nodes bring their inputs", "Leave inputs out, or give outputs instead of nodes.")
    for argument, names in (("outputs", outputs), ("inputs", inputs), ("nodes", nodes)):
        texts(argument, names or ())
    model = model_of(model)
    root = graph_named(model, graph)
    if nodes is not None:
        cut = cut_selection(nodes_named(root.nodes, nodes))
    else:
        if inputs is None:
            given = [*root.inputs, *_taken_from_around(root)]
        else:
            given = named_in(visible_values(root), inputs, "value")
        cut = cut_between(root, given, values_named(root, outputs or ()))
    (part,) = cut_parts(model, [cut], progress=progress)
    require_agreement(check_part(model, part, root, runs=checks, progress=progress))
    return part


def _taken_from_around(graph: Graph) -> list[Value]:
    """What nodes of a body compute with that the graphs around it have, initializers aside."""
    inside = set(graph.walk())
    used = (value for part in inside for node in part.nodes for value in node.inputs if value is not None)
    return list(dict.fromkeys(v for v in used if v.is_defined and v.graph not in inside and v.initializer is None))


def reduce(
    model: Model | Document,
    until: str | Callable[[Model, Mapping[str, RuntimeValue]], bool],
    *,
    inputs: Mapping[str, RuntimeValue] | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    small_weights: bool = False,
    neutral_names: bool = False,
    progress: Progress = SILENT,
) -> Reduction:
    """Find the smallest part of a model that still fails, to debug or report it.

    `until` is the failure: "nonfinite", where NaN or infinities begin; "fails", a node fails in the program's executor;
    "differs-from-ort", a value differs from ONNX Runtime's; a command with ``{}`` in place of the model's file, which
    fails with another exit status than 0 (without a shell; the inputs are in inputs.npz beside the file); or a function
    of a model and its inputs. Inputs that `inputs` lacks are random, with `seed`. Each trial ends after `time_limit`
    seconds. `rtol` and `atol` are the tolerance of "differs-from-ort", by default that of the element type. The model
    is not changed.

    With `small_weights`, weights of the part become constants of one number wherever it still fails in the same way,
    and with `neutral_names` nodes, values and sizes are numbered and texts and metadata left out.

    Returns the part, which no node can be removed from, and its inputs: the values of the whole model's run. Nodes of
    subgraphs and functions are cut out of these if they fail by themselves.
    ModelError: the model does not fail, or not each time, or the command cannot be run.

    >>> import onnx_workbench as ow
    >>> import numpy as np
    >>> model = ow.load(sample)
    >>> image = np.zeros((1, 1, 28, 28), np.uint8)
    >>> has_softmax = lambda part, _: any(node.op_type == "Softmax" for node in part.graph.nodes)
    >>> reduced = ow.reduce(model, has_softmax, inputs={"image": image})
    >>> len(reduced.model.graph.nodes)
    1
    """
    from onnx_workbench.exec.inputs.sources import make_feeds
    from onnx_workbench.exec.transform.reduce import ReduceOptions, failing, reduce_model

    whole = model_of(model)
    feeds = make_feeds(whole.graph, given=inputs, seed=seed, progress=progress)
    options = ReduceOptions(seed, time_limit, rtol, atol, small_weights, neutral_names)
    if isinstance(until, str):
        return reduce_model(whole, feeds, failing(until, options), options, progress)
    asked = until
    return reduce_model(
        whole, feeds, lambda part, given, _: "the test is true" if asked(part, given) else "", options, progress
    )


def split(
    model: Model | Document, at: Sequence[str], *, graph: str = "", checks: int = 1, progress: Progress = SILENT
) -> tuple[Model, Model]:
    """Split a model in two at values, by name: the first computes them, the second goes on from there.

    What else is computed before and used behind is passed on too; inputs that nothing uses are in the first. Merged
    again, they compute what the model did. With `checks`, the parts are compared with the model
    on so many random inputs, as `extract` does.

    ModelError: no such value or graph, a cut that leaves nothing on one side, types that are not known, or a part that
    does not compute what the model does.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> first, second = ow.split(model, at=[model.graph.nodes.first.outputs[0].name])
    >>> [value.name for value in first.graph.outputs] == [value.name for value in second.graph.inputs]
    True
    """
    from onnx_workbench.exec.inspect.self_check import require_agreement
    from onnx_workbench.exec.transform.extract import check_part, cut_parts
    from onnx_workbench.model.analysis.by_name import graph_named, values_named
    from onnx_workbench.model.edits.extract import cut_in_two

    model = model_of(model)
    root = graph_named(model, graph)
    cuts = cut_in_two(root, values_named(root, texts("at", at)))
    first, second = cut_parts(model, cuts, progress=progress)
    for part in (first, second):
        require_agreement(check_part(model, part, root, runs=checks, progress=progress))
    return first, second


@dataclass(frozen=True, slots=True)
class Merged:
    """The nodes that were added, and what had to be changed of the other model for that."""

    nodes: tuple[Node, ...]
    report: ConversionReport


def merge(
    model: Model | Document,
    other: Model | Document,
    *,
    connect: Mapping[str, str] | None = None,
    prefix: str = "",
    keep_outputs: bool = True,
    cast: bool = False,
    progress: Progress = SILENT,
) -> Merged:
    """Add another model to a model: its inputs are fed by values here, its outputs become outputs.

    `connect` maps names of its inputs to names of values here; without it, those of equal names whose types fit are
    connected. Types must fit; with `cast`, a Cast converts elements of another type. Inputs that nothing feeds become
    inputs. Names that clash get `prefix`, or a number. Where the models
    import other operator sets, `other` is converted (that model is changed). Without `keep_outputs`, outputs that feed
    the other model are no outputs any more.

    ModelError: no such name, types that do not fit, or the other model cannot be converted.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> first, second = ow.split(model, at=[model.graph.nodes.first.outputs[0].name])
    >>> merged = ow.merge(first, second, keep_outputs=False)
    >>> len(first.graph.nodes) == len(model.graph.nodes)
    True
    """
    from onnx_workbench.model.analysis.by_name import values_named
    from onnx_workbench.model.convert.align_for_merge import align, casts_between, clashing_functions, insert_casts
    from onnx_workbench.model.edits.copy_paste import merge as merge_into

    document, part = as_document(model), as_document(other)
    graph = document.model.graph
    report = align(part, document.model.opset_imports, clashing_functions(document.model, part.model), progress)
    links = _same_names(graph, part.model.graph) if connect is None else dict(connect)
    values_named(graph, [*links.values()])  # tells names that are like one that is missing
    casts = casts_between(graph, part.model.graph, links, progress)
    if casts and not cast:
        raise ModelError(*casts[0].problem)
    with document.edit("Merge") as edit:
        links |= insert_casts(edit, graph, casts)
        nodes = merge_into(edit, graph, part.model, links, prefix=prefix, keep_outputs=keep_outputs, progress=progress)
    return Merged(tuple(nodes), report)


def _same_names(graph: Graph, part: Graph) -> dict[str, str]:
    """Inputs of a part and the values of a graph that may feed them: of the same name, and of types that fit."""
    from onnx_workbench.model.analysis.scoping import visible_values
    from onnx_workbench.model.inference.infer import compatible

    here, found = visible_values(graph), {}
    for value in part.inputs:
        source = here.get(value.name)
        if source is None or value.initializer is not None:
            continue
        if source.type is None or value.type is None or compatible(source.type, value.type):
            found[value.name] = value.name
    return found
