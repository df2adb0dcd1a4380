"""Match the functions of two models: by key, then by similarity of their bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from onnx_workbench.model.analysis.node_labels import node_label
from onnx_workbench.model.diff.graph_matching import MOST_PAIRS
from onnx_workbench.model.ir.graph import Function, Model

_LEAST_SHARED = 0.5  # share of equal nodes above which functions are the same under another name


def pair_functions(old: Model, new: Model) -> list[tuple[Function, Function]]:
    """Return matched functions: those of equal key, then those with the most similar bodies."""
    theirs = {f.key: f for f in new.functions}
    pairs = [(f, theirs[f.key]) for f in old.functions if f.key in theirs]
    taken = {f.key for f, _ in pairs}
    ours_left = [f for f in old.functions if f.key not in taken]
    theirs_left = [f for f in new.functions if f.key not in taken]
    if not ours_left or not theirs_left or len(ours_left) * len(theirs_left) > MOST_PAIRS:
        return pairs
    contents = [_contents(functions, model) for functions, model in ((ours_left, old), (theirs_left, new))]
    scored = [
        (-_likeness(mine, other), i, j) for i, mine in enumerate(contents[0]) for j, other in enumerate(contents[1])
    ]
    used: tuple[set[int], set[int]] = set(), set()
    for likeness, i, j in sorted(scored):
        if -likeness >= _LEAST_SHARED and i not in used[0] and j not in used[1]:
            used[0].add(i)
            used[1].add(j)
            pairs.append((ours_left[i], theirs_left[j]))
    return pairs


def _contents(functions: Iterable[Function], model: Model) -> list[Counter[Hashable]]:
    """Count the operators of each function; calls of functions are one kind, as they may be renamed too."""
    local = {f.key for f in model.functions}
    found = []
    for function in functions:
        nodes = [node for graph in function.body.walk() for node in graph.nodes]
        keys = {node: node.operator for node in nodes}
        labels = Counter(node_label(node, "call" if keys[node] in local else keys[node]) for node in nodes)
        labels.update(("input", i) for i in range(len(function.body.inputs)))
        labels.update(("output", i) for i in range(len(function.body.outputs)))
        found.append(labels)
    return found


def _likeness(mine: Counter[Hashable], other: Counter[Hashable]) -> float:
    """Return the Jaccard similarity of two multisets."""
    return (mine & other).total() / max((mine | other).total(), 1)
