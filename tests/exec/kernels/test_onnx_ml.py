"""Operators of ai.onnx.ml: against ONNX Runtime, and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx_ml import tree_ensembles
from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.session import Session
from onnx_workbench.model.io.reader.read import load
from tests.exec.kernels.harness import assert_same, call, check_against, one_node_model, ort_one_node

ML = "ai.onnx.ml"
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
COMPARISONS = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def rows(count: int = 7, width: int = 4) -> Any:
    return np.random.default_rng(3).standard_normal((count, width)).astype(np.float32)


def texts(*values: str) -> Any:
    return np.array(values, object)


def floats(values: Any) -> tuple[float, ...]:
    return tuple(float(np.float32(v)) for v in values)


def against_ort(op_type: str, inputs: list[Any], *, opset: int = 1, outputs: int = 1, **attributes: Any) -> None:
    check_against(
        ort_one_node, op_type, inputs, opset=opset, outputs=outputs, domain=ML, rtol=1e-4, atol=1e-5, **attributes
    )


X = rows()
NAN = float("nan")


@pytest.mark.parametrize(
    ("op_type", "inputs", "opset", "attributes"),
    [
        ("Normalizer", [np.vstack([X, -abs(X), 0 * X])], 1, {"norm": "MAX"}),
        ("Normalizer", [np.vstack([X, -abs(X), 0 * X])], 1, {"norm": "L1"}),
        ("Normalizer", [np.vstack([X, -abs(X), 0 * X])], 1, {"norm": "L2"}),
        ("Scaler", [X], 1, {"offset": (0.5, 1.0, 2.0, 3.0), "scale": (1.0, 2.0, 3.0, 4.0)}),
        ("Scaler", [np.arange(8).reshape(2, 4)], 1, {"offset": (0.5,), "scale": (2.0,)}),
        (
            "Imputer",
            [np.array([[1, NAN], [NAN, 2]], np.float32)],
            1,
            {"imputed_value_floats": (7.0, 8.0), "replaced_value_float": NAN},
        ),
        ("Imputer", [np.array([[1, 0], [0, 2]])], 1, {"imputed_value_int64s": (7,), "replaced_value_int64": 0}),
        ("Binarizer", [X], 1, {"threshold": 0.1}),
        ("ArrayFeatureExtractor", [X[0], np.array([1, 3])], 1, {}),
        ("ArrayFeatureExtractor", [X, np.array([[1, 3]])], 1, {}),
        ("FeatureVectorizer", [X, X[:, :2]], 1, {"inputdimensions": (3, 3)}),
        ("OneHotEncoder", [np.array([[1, 2], [9, 1]])], 1, {"cats_int64s": (1, 2, 3)}),
        ("OneHotEncoder", [np.array([1.5, 2.0], np.float32)], 1, {"cats_int64s": (1, 2, 3)}),
        ("OneHotEncoder", [texts("a", "z")], 1, {"cats_strings": ("a", "b")}),
        (
            "CategoryMapper",
            [texts("a", "z")],
            1,
            {"cats_strings": ("a", "b"), "cats_int64s": (4, 5), "default_int64": -3},
        ),
        (
            "CategoryMapper",
            [np.array([5, 7])],
            1,
            {"cats_strings": ("a", "b"), "cats_int64s": (4, 5), "default_string": "?"},
        ),
        ("LabelEncoder", [texts("a", "b", "z")], 1, {"classes_strings": ("a", "b"), "default_int64": -3}),
        ("LabelEncoder", [np.array([1, 5])], 1, {"classes_strings": ("a", "b"), "default_string": "d"}),
        ("LabelEncoder", [np.array([1, 5])], 2, {"keys_int64s": (1, 1), "values_floats": (2.0, 3.0)}),
        (
            "LabelEncoder",
            [np.array([1.0, 5, NAN])],
            4,
            {
                "keys_tensor": np.array([1.0, NAN]),
                "values_tensor": np.array([7, 8]),
                "default_tensor": np.array([0]),
            },
        ),
    ],
)
def test_features_agree_with_onnxruntime(op_type: str, inputs: list[Any], opset: int, attributes: Any) -> None:
    against_ort(op_type, inputs, opset=opset, **attributes)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_no_transform_hides_nan(transform: str) -> None:
    shared = {"coefficients": floats(np.linspace(-0.1, 0.1, 12)), "post_transform": transform}
    x = np.array([[NAN, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]], np.float32)
    against_ort("LinearClassifier", [x], outputs=2, classlabels_ints=(0, 1, 2), intercepts=(0.3, 0.4, 0.5), **shared)
    against_ort("LinearRegressor", [x], targets=3, intercepts=(0.3, 0.4, 0.5), **shared)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 2, 3])
def test_linear_models_agree_with_onnxruntime(transform: str, targets: int) -> None:
    rng = np.random.default_rng(targets)
    shared = {
        "coefficients": floats(rng.uniform(-0.1, 0.1, 4 * targets)),
        "intercepts": floats(rng.uniform(0.3, 0.5, targets)),
        "post_transform": transform,
    }
    against_ort("LinearRegressor", [X], targets=targets, **shared)
    if (targets, transform) != (1, "PROBIT"):  # there it writes into the next row
        labels = tuple(range(5, 5 + max(targets, 2)))
        against_ort("LinearClassifier", [X], outputs=2, classlabels_ints=labels, **shared)


@pytest.mark.long
@pytest.mark.parametrize("transform", TRANSFORMS[:4])
@pytest.mark.parametrize("kind", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vector_machines_agree_with_onnxruntime(transform: str, kind: str) -> None:
    rng = np.random.default_rng(11)
    shared = {"kernel_type": kind, "kernel_params": (0.3, 0.2, 3.0), "post_transform": transform}
    for one_class in (0, 1):
        against_ort(
            "SVMRegressor", [X], n_supports=3, coefficients=floats(rng.normal(size=3)), rho=(0.1,),
            support_vectors=floats(rng.normal(size=12)), one_class=one_class, **shared,
        )  # fmt: skip
    for classes in (2, 3, 4):
        counts = tuple(int(n) for n in rng.integers(1, 4, classes))
        total, pairs = sum(counts), classes * (classes - 1) // 2
        model = {
            "vectors_per_class": counts,
            "coefficients": floats(rng.normal(size=(classes - 1) * total)),
            "support_vectors": floats(rng.normal(size=total * 4)),
            "rho": floats(rng.normal(size=pairs) * 0.1),
            "classlabels_strings": tuple("abcd"[:classes]),
        }
        against_ort("SVMClassifier", [X], outputs=2, **model, **shared)
        probabilities = {"prob_a": floats(-abs(rng.normal(size=pairs))), "prob_b": floats(rng.normal(size=pairs))}
        against_ort("SVMClassifier", [X], outputs=2, **model, **probabilities, **shared)


@pytest.mark.parametrize("classes", [2, 3])
def test_linear_support_vector_machines_agree_with_onnxruntime(classes: int) -> None:
    weights = floats(np.random.default_rng(1).normal(size=classes * 4))
    against_ort(
        "SVMClassifier", [X], outputs=2, coefficients=weights, rho=(0.1,), kernel_params=(0.1, 0.1, 0.1),
        classlabels_ints=tuple(range(classes)),
    )  # fmt: skip
    against_ort("SVMRegressor", [X], coefficients=weights[:4], rho=(0.1,), kernel_params=(0.1, 0.1, 0.1))


# --- trees -----------------------------------------------------------------------------------------------------


def forest(prefix: str, ids: list[int], *, modes: list[str], every: bool, positive: bool = True, trees: int = 5) -> Any:
    """Complete trees of depth 3 with random splits; each leaf votes for all ids, or each tree for one."""
    rng = np.random.default_rng(7)
    nodes, inner = 15, 7
    found: dict[str, list[Any]] = {}

    def add(**entries: Any) -> None:
        for name, value in entries.items():
            found.setdefault(name, []).append(value)

    id_name = "class_ids" if prefix == "class" else "target_ids"
    for tree in range(trees):
        for node in range(nodes):
            split = node < inner
            add(
                nodes_treeids=tree,
                nodes_nodeids=node,
                nodes_featureids=int(rng.integers(4)) if split else 0,
                nodes_values=floats(rng.standard_normal(1))[0] if split else 0.0,
                nodes_modes=str(rng.choice(modes)) if split else "LEAF",
                nodes_truenodeids=2 * node + 1 if split else 0,
                nodes_falsenodeids=2 * node + 2 if split else 0,
                nodes_missing_value_tracks_true=int(rng.integers(2)) if split else 0,
            )
            for target in [] if split else ids if every else [ids[tree % len(ids)]]:
                weight = rng.uniform(0, 0.3) if positive else rng.normal()
                add(**{
                    f"{prefix}_treeids": tree, f"{prefix}_nodeids": node, id_name: target,
                    f"{prefix}_weights": floats([weight])[0],
                })  # fmt: skip
    return {name: tuple(values) for name, values in found.items()}


@pytest.mark.long
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize(("targets", "every"), [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("modes", [COMPARISONS[:1], COMPARISONS])
def test_tree_regressor_agrees_with_onnxruntime(aggregate: str, targets: int, every: bool, modes: list[str]) -> None:
    x = X.copy()
    x[0] = NAN
    model = forest("target", list(range(targets)), modes=modes, every=every)
    for transform in TRANSFORMS[:4]:
        against_ort(
            "TreeEnsembleRegressor", [x], n_targets=targets, aggregate_function=aggregate, post_transform=transform,
            base_values=(0.5,) * targets, **model,
        )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("transform", TRANSFORMS[:4])
@pytest.mark.parametrize("positive", [True, False])
def test_tree_classifier_agrees_with_onnxruntime(transform: str, positive: bool) -> None:
    for labels, ids, every, base in (
        (2, [0], False, {}),
        (2, [0], False, {"base_values": (0.2,)}),
        (2, [1], False, {}),
        (3, [0, 1, 2], False, {"base_values": (0.1, 0.2, 0.3)}),
        (3, [0, 1, 2], True, {}),
    ):
        model = forest("class", ids, modes=COMPARISONS[:1], every=every, positive=positive)
        against_ort(
            "TreeEnsembleClassifier", [X], outputs=2, post_transform=transform,
            classlabels_strings=tuple("abc"[:labels]), **base, **model,
        )  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS[:4])
@pytest.mark.parametrize("ids", [[0], [2], [1, 2]])
def test_a_tree_classifier_chooses_no_class_without_votes(ids: list[int], transform: str) -> None:
    model = forest("class", ids, modes=COMPARISONS[:1], every=False, positive=False)
    model["class_weights"] = tuple(-abs(weight) for weight in model["class_weights"])
    against_ort(
        "TreeEnsembleClassifier", [X], outputs=2, post_transform=transform, classlabels_int64s=(10, 11, 12), **model
    )


def test_tree_classifier_takes_the_top_of_two_scored_classes() -> None:
    model = forest("class", [0, 1], modes=COMPARISONS[:1], every=True)
    labels, scores = call(
        "TreeEnsembleClassifier", [X], opset=1, domain=ML, outputs=2, classlabels_int64s=(5, 6), **model
    )
    assert labels.tolist() == [5 + int(np.argmax(s)) for s in scores]


def test_tree_classifier_3_takes_doubles() -> None:
    model = forest("class", [0, 1, 2], modes=COMPARISONS[:1], every=True)
    values, weights = (np.array(model.pop(n)) for n in ("nodes_values", "class_weights"))
    against_ort(
        "TreeEnsembleClassifier", [X.astype(np.float64)], opset=3, outputs=2, classlabels_int64s=(0, 1, 2),
        nodes_values_as_tensor=values, class_weights_as_tensor=weights, **model,
    )  # fmt: skip


@pytest.mark.parametrize("rows_", [1, 3, 5000])
def test_blocks_of_rows_give_what_single_rows_give(rows_: int) -> None:
    x = rows(rows_)
    model = forest("target", [0, 1], modes=COMPARISONS[:3], every=True)
    whole = call("TreeEnsembleRegressor", [x], opset=3, domain=ML, n_targets=2, **model)
    for row in range(0, rows_, 611):
        single = call("TreeEnsembleRegressor", [x[row : row + 1]], opset=3, domain=ML, n_targets=2, **model)
        assert_same(single, whole[row : row + 1], rtol=0)


def test_prepared_trees_give_what_the_kernel_gives() -> None:
    model = forest("target", [0], modes=COMPARISONS[:1], every=True)
    prepare = find("TreeEnsembleRegressor", 3, ML).prepare
    assert prepare is not None
    run = prepare([None], n_targets=1, **model)
    assert run is not None
    assert_same(run(X), call("TreeEnsembleRegressor", [X], opset=3, domain=ML, n_targets=1, **model), rtol=0)


def member_tree() -> dict[str, Any]:
    """x[0] in {1, 5, 9} → 10; else x[1] in {2} → 20; else 30."""
    return {
        "nodes_featureids": (0, 1),
        "nodes_modes": np.array([6, 6], np.uint8),
        "nodes_splits": np.zeros(2, np.float32),
        "membership_values": np.array([1, 5, 9, NAN, 2, NAN], np.float32),
        "nodes_truenodeids": (0, 1),
        "nodes_trueleafs": (1, 1),
        "nodes_falsenodeids": (1, 2),
        "nodes_falseleafs": (0, 1),
        "leaf_targetids": (0, 0, 0),
        "leaf_weights": np.array([10, 20, 30], np.float32),
        "tree_roots": (0,),
        "n_targets": 1,
    }


def test_tree_members_are_looked_up_in_their_own_set() -> None:
    x = np.array([[1, 0], [5, 2], [9, 9], [2, 2], [2, 5], [NAN, 2]], np.float32)
    result = call("TreeEnsemble", [x], opset=5, domain=ML, **member_tree())
    assert result.tolist() == [[10], [10], [10], [20], [30], [20]]


def test_trees_are_compiled_once_for_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[dict[str, Any]] = []
    ensemble = tree_ensembles._ensemble

    def counting(given: dict[str, Any]) -> Any:
        compiled.append(given)
        return ensemble(given)

    monkeypatch.setattr(tree_ensembles, "_ensemble", counting)
    model, _ = one_node_model("TreeEnsemble", [X], opset=5, domain=ML, **member_tree())
    session = Session(load(model.SerializeToString()))
    for x in (X, X + np.float32(1), X[:1]):
        result = session.run({"x0": x}, fresh=True).outputs["y0"]
        assert_same(result, tree_ensembles.tree_ensemble_5(**member_tree())(x), rtol=0)
    assert len(compiled) == 1 + 3  # those of the kernel that they are compared with


HOSTILE_TREES: list[dict[str, Any]] = [
    {"nodes_falsenodeids": (0, 2)},  # a cycle
    {"nodes_truenodeids": (9, 1)},
    {"tree_roots": (5,)},
    {"tree_roots": ()},
    {"leaf_targetids": (0, 7, 0)},
    {"nodes_featureids": (0, 99)},
    {"nodes_featureids": (0, -1)},
    {"nodes_featureids": (0,)},
    {"nodes_modes": np.array([6, 9], np.uint8)},
    {"membership_values": np.array([1], np.float32)},
    {"post_transform": 9},
    {"aggregate_function": -1},
]


@pytest.mark.parametrize("change", HOSTILE_TREES)
def test_broken_trees_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(KernelError):
        call("TreeEnsemble", [X], opset=5, domain=ML, **(member_tree() | change))


@pytest.mark.parametrize(
    "change",
    [
        {"nodes_truenodeids": (0,) * 75},  # every node is its tree's root's parent
        {"nodes_truenodeids": (99,) * 75},
        {"nodes_nodeids": (0,) * 75},
        {"nodes_modes": ("BRANCH_NEAR",) * 75},
        {"nodes_values": (1.0,)},
        {"target_nodeids": (99,) * 40},
        {"target_ids": (1,) * 40},
        {"aggregate_function": "MEDIAN"},
        {"post_transform": "CUBE"},
        {"base_values": (1.0, 2.0, 3.0)},
    ],
)
def test_broken_ensembles_are_refused(change: dict[str, Any]) -> None:
    model = forest("target", [0], modes=COMPARISONS[:1], every=True) | change
    with pytest.raises(KernelError):
        call("TreeEnsembleRegressor", [X], opset=1, domain=ML, n_targets=1, **model)


# --- maps and what else has no other engine --------------------------------------------------------------------


def test_zip_map_gives_a_map_per_row() -> None:
    scores = np.array([[0.25, 0.75], [1, 0]], np.float32)
    assert call("ZipMap", [scores], opset=1, domain=ML, classlabels_strings=("a", "b")) == [
        {"a": 0.25, "b": 0.75},
        {"a": 1.0, "b": 0.0},
    ]


def test_dict_vectorizer_follows_the_vocabulary() -> None:
    result = call("DictVectorizer", [{"a": 4.0, "c": 8.0}], opset=1, domain=ML, string_vocabulary=("a", "c", "b"))
    assert_same(result, np.array([[4, 8, 0]], np.float32))
    result = call("DictVectorizer", [{1: "x"}], opset=1, domain=ML, int64_vocabulary=(2, 1))
    assert result.tolist() == [["", "x"]]


def test_cast_map_is_dense_or_sparse() -> None:
    given = {3: "1.5", 1: "2"}
    assert_same(call("CastMap", [given], opset=1, domain=ML), np.array([[2, 1.5]], np.float32))
    sparse = call("CastMap", [given], opset=1, domain=ML, map_form="SPARSE", max_map=5, cast_to="TO_INT64")
    assert_same(sparse, np.array([[0, 2, 0, 1, 0]]))
    assert call("CastMap", [{0: 2}], opset=1, domain=ML, cast_to="TO_STRING").tolist() == [["2"]]


def test_label_encoder_4_lets_the_last_of_equal_keys_win() -> None:
    result = call("LabelEncoder", [np.array([1])], opset=4, domain=ML, keys_int64s=(1, 1), values_int64s=(2, 3))
    assert result.tolist() == [3]


@pytest.mark.parametrize("opset", [2, 4])
def test_label_encoder_builds_its_table_once(opset: int) -> None:
    attributes: dict[str, Any] = {"keys_strings": ("a", "b"), "values_int64s": (2, 3), "default_int64": 9}
    prepare = find("LabelEncoder", opset, ML).prepare
    assert prepare is not None
    encode = prepare((None,), **attributes)
    for given in (texts("b", "c"), texts("a")):
        assert_same(encode(given), call("LabelEncoder", [given], opset=opset, domain=ML, **attributes))
    with pytest.raises(KernelError, match="expected texts in both"):
        encode(np.array([1]))


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("LabelEncoder", {"classes_strings": ("a", "b"), "default_int64": 9}),
        ("CategoryMapper", {"cats_strings": ("a", "b"), "cats_int64s": (1, 0), "default_string": "none"}),
    ],
)
def test_encoders_of_either_way_build_their_tables_once(op_type: str, attributes: dict[str, Any]) -> None:
    prepare = find(op_type, 1, ML).prepare
    assert prepare is not None
    encode = prepare((None,), **attributes)
    for given in (texts("b", "c"), np.array([1, 7]), texts("a"), np.array([0])):
        assert_same(encode(given), call(op_type, [given], opset=1, domain=ML, **attributes))


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("ArrayFeatureExtractor", [X, np.array([9])], {}),
        ("Scaler", [X], {"offset": (1.0, 2.0)}),
        ("Normalizer", [X], {"norm": "L3"}),
        ("Imputer", [X], {"imputed_value_int64s": (1,)}),
        ("FeatureVectorizer", [X, X[:2]], {}),
        ("FeatureVectorizer", [X], {"inputdimensions": (-1,)}),
        ("OneHotEncoder", [np.array([9])], {"cats_int64s": (1,), "zeros": 0}),
        ("OneHotEncoder", [texts("a")], {"cats_int64s": (1,)}),
        ("OneHotEncoder", [texts("a")], {}),
        ("CategoryMapper", [texts("a")], {"cats_strings": ("a",), "cats_int64s": (1, 2)}),
        ("LinearRegressor", [X], {"coefficients": (1.0,)}),
        ("LinearRegressor", [X], {"coefficients": (1.0,) * 4, "intercepts": (1.0, 2.0)}),
        ("LinearRegressor", [X], {"coefficients": (1.0,) * 4, "targets": 0}),
        ("LinearClassifier", [X], {"coefficients": (1.0,) * 12, "classlabels_ints": (1, 2)}),
        ("LinearClassifier", [texts("a")], {"coefficients": (1.0,), "classlabels_ints": (1, 2)}),
        ("SVMRegressor", [X], {"coefficients": (1.0,)}),
        ("SVMRegressor", [X], {"n_supports": 2, "rho": (1.0,), "support_vectors": (1.0,)}),
        ("SVMClassifier", [X], {"classlabels_ints": (1, 2)}),
        ("SVMClassifier", [X], {"classlabels_ints": (1, 2), "vectors_per_class": (2**40, 1), "rho": (1.0,)}),
        ("SVMClassifier", [X], {"classlabels_ints": (1, 2), "vectors_per_class": (-1, 3), "rho": (1.0,)}),
        ("ZipMap", [X], {"classlabels_int64s": (1,)}),
        ("DictVectorizer", [X], {"int64_vocabulary": (1,)}),
        ("CastMap", [{9: 1.0}], {"map_form": "SPARSE", "max_map": 5}),
        ("CastMap", [{1: "x"}], {}),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, inputs: list[Any], attributes: Any) -> None:
    with pytest.raises(KernelError):
        call(op_type, inputs, opset=1, domain=ML, outputs=2, **attributes)
