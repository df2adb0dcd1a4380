"""Operators of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.generator import FLOAT, I64, ML, STRING, Builder, Impossible, Value
from tests.fuzz.operators.registry import operator


def rows(g: Builder) -> Value:
    return g.pick((FLOAT,), 2, test=lambda v: isinstance(v.dims[1], int) and v.dims[1] > 0, exact=True)


@operator("Scaler", weight=0.3, domain=ML)
def ml_scaler(g: Builder) -> Value:
    x = rows(g)
    n = int(x.dims[1])
    return g.add("Scaler", [x], (FLOAT, x.dims), domain=ML, offset=[0.5] * g.rng.choice((1, n)), scale=[2.0] * n,
                 exact=False) if n else x  # fmt: skip


@operator("Binarizer", weight=0.5, domain=ML)
def ml_elementwise(g: Builder) -> Value:
    x = rows(g)
    op = g.rng.choice(("Binarizer", "Normalizer", "Imputer"))
    given = {
        "Binarizer": {"threshold": 0.5},
        "Normalizer": {"norm": g.rng.choice((None, "MAX", "L1", "L2"))},
        "Imputer": {"imputed_value_floats": [1.5], "replaced_value_float": g.rng.choice((0.0, 0.25))},
    }[op]
    return g.add(op, [x], (FLOAT, x.dims), domain=ML, exact=op == "Binarizer", **given)


@operator("LinearRegressor", weight=0.3, domain=ML)
def ml_linear(g: Builder) -> Value:
    x = rows(g)
    n, targets = int(x.dims[1]), g.rng.randint(1, 3)
    draws = np.random.default_rng(g.rng.getrandbits(32))
    weights = (draws.integers(-4, 5, n * targets) / 4).tolist()
    after = g.rng.choice((None, "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"))
    if g.chance(0.5):
        return g.add("LinearRegressor", [x], (FLOAT, (x.dims[0], targets)), domain=ML, targets=targets,
                     coefficients=weights, intercepts=[0.5] * targets, post_transform=g.rng.choice((None, "NONE")),
                     exact=False)  # fmt: skip
    targets = max(targets, 2)
    weights = (draws.integers(-4, 5, n * targets) / 4 + 0.01 * np.arange(n * targets)).tolist()
    return g.add("LinearClassifier", [x], (I64, (x.dims[0],)), (FLOAT, (x.dims[0], targets)), domain=ML, exact=False,
                 coefficients=weights, intercepts=[0.1 * i for i in range(targets)], post_transform=after,
                 classlabels_ints=list(range(targets)), multi_class=1)  # fmt: skip


_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def trees(g: Builder, width: int) -> tuple[dict[str, list[Any]], list[tuple[int, int]]]:
    """Attributes of some random trees, and the tree and number of each leaf."""
    made: dict[str, list[Any]] = {f"nodes_{name}": [] for name in (
        "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
        "missing_value_tracks_true", "hitrates")}  # fmt: skip
    leaves = []
    modes = [g.rng.choice(_MODES)] if g.chance(0.5) else _MODES
    for tree in range(g.rng.randint(1, 3)):
        count, pending = 1, [(0, 0)]
        while pending:
            number, depth = pending.pop(0)
            splits = depth < 3 and g.chance((0.9, 0.6, 0.4)[depth])
            row = (tree, number, g.rng.randrange(width), g.rng.choice((-1.0, 0.0, 0.25, 0.5, 1.0)), g.rng.choice(modes),
                   count, count + 1, g.rng.randint(0, 1), 1.0)  # fmt: skip
            row = row if splits else (tree, number, 0, 0.0, "LEAF", 0, 0, 0, 1.0)
            for values, value in zip(made.values(), row, strict=True):
                values.append(value)
            if splits:
                pending += [(count, depth + 1), (count + 1, depth + 1)]
                count += 2
            else:
                leaves.append((tree, number))
    if g.chance(0.5):
        del made["nodes_missing_value_tracks_true"]
    if g.chance(0.5):
        del made["nodes_hitrates"]
    return made, leaves


@operator("TreeEnsembleRegressor", weight=0.5, domain=ML)
def tree_regressor(g: Builder) -> Value:
    x = rows(g)
    made, leaves = trees(g, int(x.dims[1]))
    targets = g.rng.randint(1, 3)
    votes = [(*leaf, g.rng.randrange(targets), g.rng.choice((-2.0, 0.5, 1.0))) for leaf in leaves]
    made |= {f"target_{name}": list(column) for name, column in
             zip(("treeids", "nodeids", "ids", "weights"), zip(*votes, strict=True), strict=True)}  # fmt: skip
    return g.add(
        "TreeEnsembleRegressor", [x], (FLOAT, (x.dims[0], targets)), domain=ML, exact=False, n_targets=targets,
        aggregate_function=g.rng.choice((None, "SUM", "AVERAGE", "MIN", "MAX")),
        base_values=g.rng.choice((None, [0.25] * targets)), post_transform=g.rng.choice((None, "NONE")), **made,
    )  # fmt: skip


@operator("TreeEnsembleClassifier", weight=0.5, domain=ML)
def tree_classifier(g: Builder) -> Value:
    """Classes with weights that make no ties; with two classes, weights of one or of both."""
    x = rows(g)
    made, leaves = trees(g, int(x.dims[1]))
    classes = g.rng.randint(2, 4)
    voted = [1] if classes == 2 and g.chance(0.3) else range(classes)
    votes = [(*leaf, c, 0.5 + i / 64 + c / 1000) for i, leaf in enumerate(leaves) for c in voted]
    made |= {f"class_{name}": list(column) for name, column in
             zip(("treeids", "nodeids", "ids", "weights"), zip(*votes, strict=True), strict=True)}  # fmt: skip
    labels = {"classlabels_strings": list("abcd"[:classes])} if g.chance(0.4) else {
        "classlabels_int64s": list(range(3, 3 + classes))}  # fmt: skip
    label = STRING if "classlabels_strings" in labels else I64
    after = g.rng.choice((None, "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"))
    return g.add("TreeEnsembleClassifier", [x], (label, (x.dims[0],)), (FLOAT, (x.dims[0], classes)), domain=ML,
                 exact=False, post_transform=after, **labels, **made)  # fmt: skip


@operator("LabelEncoder", weight=0.3, domain=ML)
def ml_labels(g: Builder) -> Value:
    if g.version(ML) < 2:
        raise Impossible
    if g.chance(0.5):
        x = g.pick((STRING,))
        return g.add("LabelEncoder", [x], (I64, x.dims), domain=ML, keys_strings=["a", "B"], values_int64s=[1, 2],
                     default_int64=g.rng.choice((None, 7)))  # fmt: skip
    x = g.pick((I64,), exact=True)
    return g.add("LabelEncoder", [x], (FLOAT, x.dims), domain=ML, keys_int64s=[0, 1, 2], values_floats=[0.5, 1.0, 2.0],
                 default_float=g.rng.choice((None, -1.0)))  # fmt: skip


@operator("ArrayFeatureExtractor", weight=0.3, domain=ML)
def ml_features(g: Builder) -> Value:
    x = rows(g)
    if g.chance(0.5):
        index = g.constant([g.rng.randrange(int(x.dims[1])) for _ in range(2)])
        return g.add("ArrayFeatureExtractor", [x, index], (FLOAT, (x.dims[0], 2)), domain=ML)
    ints = g.pick((I64,), 1)
    return g.add("OneHotEncoder", [ints], (FLOAT, (*ints.dims, 3)), domain=ML, cats_int64s=[0, 1, 2], zeros=1)
