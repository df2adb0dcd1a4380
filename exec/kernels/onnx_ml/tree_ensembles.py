"""TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble: models compiled to the arrays of `trees`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx_ml.scores import (
    TRANSFORMS,
    class_labels,
    matrix,
    regression,
    transformed,
    two_columns,
)
from onnx_workbench.exec.kernels.onnx_ml.trees import (
    EQ,
    MODES,
    Nodes,
    Votes,
    aggregate_scores,
    build_votes,
    distinct,
    numbers,
)
from onnx_workbench.exec.kernels.registry import compiled
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.limits import checkpoint

ML = "ai.onnx.ml"
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_MEMBER = 6
Floats = Sequence[float] | Array | None
Ints = Sequence[int] | None


def _nodes_by_id(a: dict[str, Any]) -> tuple[Nodes, Callable[[Ints, Ints, str], Array]]:
    """Return the nodes from the attributes of versions 1 and 3, and a function from (tree, node) ids to indices."""
    modes = a["nodes_modes"] or ()
    count = len(modes)
    names = {name: i for i, name in enumerate(MODES)} | {"LEAF": -1}
    try:
        mode = np.array([names[m] for m in modes], np.int8)
    except KeyError as unknown:
        msg = f"nodes_modes names {unknown.args[0]!r}; expected {', '.join(names)}"
        raise KernelError(msg) from None
    trees = numbers(a["nodes_treeids"], count, "nodes_treeids")
    ids = numbers(a["nodes_nodeids"], count, "nodes_nodeids")
    index_of = _lookup(trees, ids)
    inner = mode >= 0
    children = np.repeat(np.arange(count), 2)
    for offset, name in ((0, "nodes_falsenodeids"), (1, "nodes_truenodeids")):
        child = numbers(a[name], count, name)
        children[offset::2][inner] = index_of(trees[inner], child[inner], name)
    values = a.get("nodes_values_as_tensor")
    threshold = numbers(a["nodes_values"] if values is None else values, count, "nodes_values")
    feature = np.where(inner, numbers(a["nodes_featureids"], count, "nodes_featureids"), 0)
    return Nodes(
        feature=feature.astype(np.intp),
        threshold=threshold.astype(np.float64 if values is not None and values.dtype == np.float64 else np.float32),
        mode=mode,
        children=children.astype(np.intp),
        missing_true=_missing(a["nodes_missing_value_tracks_true"], count),
        roots=_roots(trees, children, inner),
    ), index_of


def _lookup(trees: Array, ids: Array) -> Callable[[Any, Any, str], Array]:
    """Return a function from the ids of trees and of nodes in them to indices, by binary search."""
    known_trees, known_ids = distinct(trees), distinct(ids)
    numbers_of = _positions(known_trees, trees) * len(known_ids) + _positions(known_ids, ids)
    order = np.argsort(numbers_of, kind="stable")
    ordered = numbers_of[order]
    if (ordered[1:] == ordered[:-1]).any():
        msg = "a node id appears twice in one tree; expected each once"
        raise KernelError(msg)

    def index_of(tree_ids: Any, node_ids: Any, what: str) -> Array:
        checkpoint()
        pairs = [np.asarray(values, np.int64) for values in (tree_ids, node_ids)]
        if len(pairs[0]) != len(pairs[1]):
            msg = f"{what} has {len(pairs[1])} entries; expected {len(pairs[0])}, one for each tree id"
            raise KernelError(msg)
        tree, node = _positions(known_trees, pairs[0]), _positions(known_ids, pairs[1])
        place = _positions(ordered, np.where((tree < 0) | (node < 0), -1, tree * len(known_ids) + node))
        if (place < 0).any():
            missing = tuple(int(values[place < 0][0]) for values in pairs)
            msg = f"{what} names (tree, node) {missing}, which does not exist; expected one of the nodes"
            raise KernelError(msg)
        return order[place]

    return index_of


def _positions(known: Array, values: Array) -> Array:
    """Return where values are in an array in ascending order; -1 for others."""
    if not len(known):
        return np.full(len(values), -1)
    place = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[place] == values, place, -1)


def _roots(trees: Array, children: Array, inner: Array) -> Array:
    """Return the first node of each tree without a parent, in order of first appearance."""
    is_child = np.zeros(len(trees), bool)
    is_child[children.reshape(-1, 2)[inner].reshape(-1)] = True
    roots: dict[int, int] = {}
    for root in np.flatnonzero(~is_child).tolist():
        roots.setdefault(int(trees[root]), root)
    if len(roots) != len(set(trees.tolist())):
        msg = "a tree has no root: its nodes form a cycle; expected a node that is no other's child"
        raise KernelError(msg)
    return np.array(list(roots.values()), np.intp)


def _missing(values: Ints, count: int) -> Array | None:
    if not values or not any(values):
        return None
    return numbers(values, count, "nodes_missing_value_tracks_true").astype(bool)


def _either(a: dict[str, Any], name: str) -> Array:
    """Return an attribute of floats, or its `_as_tensor` variant."""
    tensor = a.get(f"{name}_as_tensor")
    return np.asarray((a[name] or ()) if tensor is None else tensor.reshape(-1))


def _is_wide(a: dict[str, Any]) -> bool:
    return any(isinstance(v, np.ndarray) and v.dtype == np.float64 for v in a.values())


def _base(values: Array, targets: int) -> Array | float:
    if values.size not in (0, targets):
        msg = f"base_values has {values.size} entries; expected {targets} or none"
        raise KernelError(msg)
    return values.astype(np.float64) if values.size else 0.0


# --- regressors ------------------------------------------------------------------------------------------------


def _regressor(a: dict[str, Any]) -> Callable[[Array], Array]:
    nodes, index_of = _nodes_by_id(a)
    targets = 1 if a["n_targets"] is None else a["n_targets"]
    leaf = index_of(a["target_treeids"] or (), a["target_nodeids"] or (), "target_nodeids")
    votes = build_votes(
        len(nodes.mode), leaf, np.array(a["target_ids"] or (), np.intp), _either(a, "target_weights"), targets,
        aggregate=a["aggregate_function"], wide=_is_wide(a),
    )  # fmt: skip
    base = _base(_either(a, "base_values"), targets)
    return _finished(nodes, votes, a["aggregate_function"], base, a["post_transform"], np.dtype(np.float32))


def _finished(
    nodes: Nodes, votes: Votes, aggregate: str, base: Array | float, post_transform: str, dtype: np.dtype[Any]
) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        scores = aggregate_scores(matrix(x), nodes, votes, aggregate)
        return regression((scores + base).astype(dtype), post_transform)

    return run


#: What version 3 takes as tensors too.
_REGRESSOR_TENSORS = (
    "base_values_as_tensor",
    "nodes_hitrates_as_tensor",
    "nodes_values_as_tensor",
    "target_weights_as_tensor",
)


@compiled("TreeEnsembleRegressor", since=1, domain=ML, without=_REGRESSOR_TENSORS)
@compiled("TreeEnsembleRegressor", since=3, domain=ML)
def tree_ensemble_regressor_3(
    *,
    aggregate_function: str = "SUM",
    base_values: Floats = None,
    base_values_as_tensor: Array | None = None,
    n_targets: int | None = None,
    nodes_falsenodeids: Ints = None,
    nodes_featureids: Ints = None,
    nodes_hitrates: Floats = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Ints = None,
    nodes_modes: Sequence[str] | None = None,
    nodes_nodeids: Ints = None,
    nodes_treeids: Ints = None,
    nodes_truenodeids: Ints = None,
    nodes_values: Floats = None,
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
    target_ids: Ints = None,
    target_nodeids: Ints = None,
    target_treeids: Ints = None,
    target_weights: Floats = None,
    target_weights_as_tensor: Array | None = None,
) -> Callable[[Array], Array]:
    """Regression scores [N, targets], float32; thresholds, weights and base values may be double as tensors."""
    return _regressor(locals())


# --- classifiers -----------------------------------------------------------------------------------------------


def _classifier(a: dict[str, Any]) -> Callable[[Array], tuple[Array, Array]]:
    nodes, index_of = _nodes_by_id(a)
    labels = class_labels(a["classlabels_int64s"], a["classlabels_strings"])
    ids = np.array(a["class_ids"] or (), np.intp)
    weights = _either(a, "class_weights")
    base = _either(a, "base_values").astype(np.float64)
    leaf = index_of(a["class_treeids"] or (), a["class_nodeids"] or (), "class_nodeids")
    # Two classes and votes for only one of them: for the first class it is a score that decides between both.
    voted = set(ids.tolist()) if len(labels) == 2 else set()
    binary = voted == {0}
    positive = bool((weights >= 0).all())
    threshold = 0.5 if positive else 0.0
    targets = 1 if binary else len(labels)
    votes = build_votes(
        len(nodes.mode), leaf, ids, weights, targets,
        aggregate="SUM", wide=_is_wide(a),
    )  # fmt: skip

    @cache
    def ballots() -> Votes:
        return build_votes(len(nodes.mode), leaf, ids, np.ones_like(weights), targets, aggregate="SUM", wide=False)

    if base.size not in (0, len(labels)) and not (len(labels) <= 2 and base.size == 1):
        msg = f"base_values has {base.size} entries; expected {len(labels)} or none"
        raise KernelError(msg)
    post_transform = a["post_transform"]

    def run(x: Array) -> tuple[Array, Array]:
        scores = aggregate_scores(matrix(x), nodes, votes, "SUM")
        if binary:
            return _two_classes(scores, labels, base, post_transform, positive=positive)
        scores[:, : base.size] += base
        chosen = (scores[:, 1] > threshold).astype(np.intp) if voted == {1} else scores.argmax(1)
        doubtful = np.flatnonzero(scores.max(1, initial=-np.inf) == 0) if voted != {1} and not base.size else ()
        if len(doubtful):  # a class without votes has the score 0 as well, but is not chosen
            counts = aggregate_scores(matrix(x)[doubtful], nodes, ballots(), "SUM")
            chosen[doubtful] = np.where(counts > 0, scores[doubtful], -np.inf).argmax(1)
        return labels[chosen], transformed(scores.astype(np.float32), post_transform)

    return run


def _two_classes(
    score: Array, labels: Array, base: Array, post_transform: str, *, positive: bool
) -> tuple[Array, Array]:
    """Return one score that decides between two classes: a probability if all weights are positive, else a margin."""
    if base.size:
        score = score + base[-1]
    single = score.astype(np.float32)
    chosen = (single[:, 0] > (0.5 if positive else 0)).astype(np.intp)
    return labels[chosen], two_columns(single, "probability" if positive else "margin", post_transform)


#: What version 3 takes as tensors too.
_CLASSIFIER_TENSORS = (
    "base_values_as_tensor",
    "class_weights_as_tensor",
    "nodes_hitrates_as_tensor",
    "nodes_values_as_tensor",
)


@compiled("TreeEnsembleClassifier", since=1, domain=ML, without=_CLASSIFIER_TENSORS)
@compiled("TreeEnsembleClassifier", since=3, domain=ML)
def tree_ensemble_classifier_3(
    *,
    base_values: Floats = None,
    base_values_as_tensor: Array | None = None,
    class_ids: Ints = None,
    class_nodeids: Ints = None,
    class_treeids: Ints = None,
    class_weights: Floats = None,
    class_weights_as_tensor: Array | None = None,
    classlabels_int64s: Ints = None,
    classlabels_strings: Sequence[str] | None = None,
    nodes_falsenodeids: Ints = None,
    nodes_featureids: Ints = None,
    nodes_hitrates: Floats = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Ints = None,
    nodes_modes: Sequence[str] | None = None,
    nodes_nodeids: Ints = None,
    nodes_treeids: Ints = None,
    nodes_truenodeids: Ints = None,
    nodes_values: Floats = None,
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
) -> Callable[[Array], tuple[Array, Array]]:
    """Return the label of each row and the scores of all classes, float32.

    Thresholds, weights and base values may be double as tensors.
    """
    return _classifier(locals())


# --- TreeEnsemble ----------------------------------------------------------------------------------------------


@compiled("TreeEnsemble", since=5, domain=ML)
def tree_ensemble_5(
    *,
    aggregate_function: int = 1,
    leaf_targetids: Sequence[int],
    leaf_weights: Array,
    membership_values: Array | None = None,
    n_targets: int | None = None,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_hitrates: Array | None = None,
    nodes_missing_value_tracks_true: Ints = None,
    nodes_modes: Array,
    nodes_splits: Array,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    post_transform: int = 0,
    tree_roots: Sequence[int],
) -> Callable[[Array], Array]:
    """Scores [N, targets] in the type of the input."""
    return _ensemble(locals())


def _ensemble(a: dict[str, Any]) -> Callable[[Array], Array]:
    splits = a["nodes_splits"]
    modes = np.asarray(a["nodes_modes"]).astype(np.int64)
    count = len(modes)
    if count and not 0 <= int(modes.min()) <= int(modes.max()) <= _MEMBER:
        msg = f"nodes_modes has {modes.min()} or {modes.max()}; expected within [0, {_MEMBER}]"
        raise KernelError(msg)
    targets = 1 if a["n_targets"] is None else a["n_targets"]
    if not 0 <= a["post_transform"] < len(TRANSFORMS) or not 0 <= a["aggregate_function"] < len(_AGGREGATES):
        given = f"post_transform is {a['post_transform']} and aggregate_function {a['aggregate_function']}"
        msg = f"{given}; expected within [0, {len(TRANSFORMS) - 1}] and [0, {len(_AGGREGATES) - 1}]"
        raise KernelError(msg)
    aggregate = _AGGREGATES[a["aggregate_function"]]
    nodes, first_leaf = _ensemble_nodes(a, modes, np.asarray(splits))
    leaves = len(a["leaf_targetids"])
    votes = build_votes(
        len(nodes.mode), first_leaf + np.arange(leaves), np.array(a["leaf_targetids"], np.intp),
        np.asarray(a["leaf_weights"]), targets, aggregate=aggregate, wide=splits.dtype == np.float64,
    )  # fmt: skip
    return _finished(nodes, votes, aggregate, 0.0, TRANSFORMS[a["post_transform"]], splits.dtype)


def _ensemble_nodes(a: dict[str, Any], modes: Array, splits: Array) -> tuple[Nodes, int]:
    """Return interior nodes, then the rest of each chain of member tests, then the leaves; and the index of the first
    leaf.
    """
    count = len(modes)
    leaves = len(a["leaf_targetids"])
    if any(not 0 <= root < count for root in a["tree_roots"]):
        msg = f"tree_roots names a node out of range; there are {count}; expected within [0, {count - 1}]"
        raise KernelError(msg)
    feature = numbers(a["nodes_featureids"], count, "nodes_featureids").astype(np.intp)
    threshold = numbers(splits, count, "nodes_splits").astype(np.float64 if splits.dtype == np.float64 else np.float32)
    missing = _missing(a["nodes_missing_value_tracks_true"], count)
    members = _member_sets(modes, a["membership_values"])
    extra = sum(len(m) - 1 for m in members.values())
    children = np.empty((count + extra, 2), np.intp)
    for column, side in ((0, "false"), (1, "true")):
        ids = numbers(a[f"nodes_{side}nodeids"], count, f"nodes_{side}nodeids").astype(np.intp)
        to_leaf = numbers(a[f"nodes_{side}leafs"], count, f"nodes_{side}leafs").astype(bool)
        bound = np.where(to_leaf, leaves, count)
        if ((ids < 0) | (ids >= bound)).any():
            given = f"nodes_{side}nodeids names a node or leaf out of range"
            msg = f"{given}; expected nodes below {count} and leaves below {leaves}"
            raise KernelError(msg)
        children[:count, column] = np.where(to_leaf, ids + count + extra, ids)
    mode = np.where(modes == _MEMBER, EQ, modes)
    chain_of, chain_value = _chain_members(members, children, threshold, count)
    first_leaf = count + extra
    own = np.repeat(np.arange(first_leaf, first_leaf + leaves), 2).reshape(-1, 2)
    none = np.zeros(leaves, np.intp)
    return Nodes(
        feature=np.concatenate([feature, feature[chain_of], none]),
        threshold=np.concatenate([threshold, chain_value.astype(threshold.dtype), none.astype(threshold.dtype)]),
        mode=np.concatenate([mode, np.full(extra, EQ), none - 1]).astype(np.int8),
        children=np.concatenate([children, own]).reshape(-1),
        missing_true=None if missing is None else np.concatenate([missing, missing[chain_of], none.astype(bool)]),
        roots=np.array(a["tree_roots"], np.intp),
    ), first_leaf


def _member_sets(modes: Array, values: Array | None) -> dict[int, list[float]]:
    """Return the members of each BRANCH_MEMBER node, stored in one list separated by NaN."""
    wanted = np.flatnonzero(modes == _MEMBER).tolist()
    sets: list[list[float]] = [[]]
    for value in () if values is None else values.tolist():
        if value != value:
            sets.append([])
        else:
            sets[-1].append(value)
    sets = [s for s in sets if s]
    if len(sets) < len(wanted):
        msg = f"membership_values has {len(sets)} sets; expected {len(wanted)}"
        raise KernelError(msg)
    return dict(zip(wanted, sets, strict=False))


def _chain_members(
    members: dict[int, list[float]], children: Array, threshold: Array, count: int
) -> tuple[Array, Array]:
    """Expand each member node into a chain of equality tests; returns the owner and the value of each added test."""
    chain_of: list[int] = []
    chain_value: list[float] = []
    for node, values in members.items():
        threshold[node] = values[0]
        out_false, out_true = children[node]
        last = node
        for value in values[1:]:
            added = count + len(chain_of)
            children[last, 0] = added
            children[added] = out_false, out_true
            chain_of.append(node)
            chain_value.append(value)
            last = added
    return np.array(chain_of, np.intp), np.array(chain_value)
