"""Match the functions of two models: by key, then by similarity of their bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from onnx_workbench.model.analysis.node_labels import node_label
from onnx_workbench.model.diff.graph_matching import most_alike
from onnx_workbench.model.ir.graph import Function, Model

_LEAST_SHARED = 0.5  # share of equal nodes above which functions are the same under another name


def pair_functions(old: Model, new: Model) -> list[tuple[Function, Function]]:
    """Return matched functions: those of equal key, then those with the most similar bodies."""
    theirs = {f.key: f for f in new.functions}
    pairs = [(f, theirs[f.key]) for f in old.functions if f.key in theirs]
    taken = {f.key for f, _ in pairs}
    ours_left = [f for f in old.functions if f.key not in taken]
    theirs_left = [f for f in new.functions if f.key not in taken]
    if ours_left and theirs_left:
        contents = _contents(ours_left, old) | _contents(theirs_left, new)

        def likeness(one: Function, other: Function) -> float:  # the Jaccard similarity of two multisets
            mine, others = contents[one], contents[other]
            return (mine & others).total() / max((mine | others).total(), 1)

        pairs += most_alike(ours_left, theirs_left, likeness, _LEAST_SHARED)
    return pairs


def _contents(functions: Iterable[Function], model: Model) -> dict[Function, Counter[Hashable]]:
    """Count the operators of each function; calls of functions are one kind, as they may be renamed too."""
    local = {f.key for f in model.functions}
    contents = {}
    for function in functions:
        nodes = [node for graph in function.body.walk() for node in graph.nodes]
        keys = {node: node.operator for node in nodes}
        labels = Counter(node_label(node, "call" if keys[node] in local else keys[node]) for node in nodes)
        labels.update(("input", i) for i in range(len(function.body.inputs)))
        labels.update(("output", i) for i in range(len(function.body.outputs)))
        contents[function] = labels
    return contents
