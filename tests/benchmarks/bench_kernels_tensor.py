"""Tensor and tree kernels against the plain numpy call that does the same, in one run: prints the ratios."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.registry import find

ROUNDS = 9


def best(run: Callable[[], Any], least: float = 2e-3) -> float:
    """Seconds of one call, the smallest of several rounds of enough calls to be told from the clock."""
    run()
    started = time.perf_counter()
    run()
    calls = max(1, int(least / max(time.perf_counter() - started, 1e-7)))
    found = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(calls):
            run()
        found.append((time.perf_counter() - started) / calls)
    return min(found)


def i64(*values: int) -> Any:
    return np.array(values, np.int64)


def cases() -> list[tuple[str, str, int, list[Any], dict[str, Any], Callable[[], Any]]]:
    """Name, operator, opset, inputs, attributes, and what numpy alone would be called for."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 64, 56, 56)).astype(np.float32)
    table = rng.standard_normal((30000, 256)).astype(np.float32)
    ids = rng.integers(0, 30000, (8, 128))
    scores = rng.standard_normal((8, 12, 128, 128)).astype(np.float32)
    mask = rng.random((8, 1, 128, 128)) > 0.5
    low = np.array(-1e9, np.float32)
    places = rng.integers(0, 128, scores.shape)
    heads = scores.transpose(0, 2, 1, 3)
    widths = ((0, 0), (0, 0), (1, 1), (1, 1))
    pads = i64(0, 0, 1, 1, 0, 0, 1, 1)
    return [
        ("Reshape, view", "Reshape", 14, [x, i64(0, -1)], {}, lambda: x.reshape(8, -1)),
        ("Transpose, view", "Transpose", 13, [scores], {"perm": (0, 2, 1, 3)}, lambda: scores.transpose(0, 2, 1, 3)),
        ("Reshape after it", "Reshape", 14, [heads, i64(0, 0, -1)], {}, lambda: heads.reshape(8, 128, -1)),
        ("Unsqueeze, view", "Unsqueeze", 13, [x, i64(1)], {}, lambda: x[:, None]),
        ("Slice, view", "Slice", 13, [x, i64(8), i64(40), i64(2)], {}, lambda: x[:, :, 8:40]),
        ("Expand, view", "Expand", 13, [mask, i64(8, 12, 128, 128)], {}, lambda: np.broadcast_to(mask, scores.shape)),
        ("Shape", "Shape", 15, [x], {}, lambda: np.array(x.shape)),
        ("Gather rows", "Gather", 13, [table, ids], {}, lambda: table[ids]),
        ("Gather one", "Gather", 13, [x, np.array(3)], {"axis": 1}, lambda: x[:, 3]),
        ("GatherElements", "GatherElements", 13, [scores, places], {"axis": 3},
         lambda: np.take_along_axis(scores, places, 3)),
        ("Concat", "Concat", 13, [x, x], {"axis": 1}, lambda: np.concatenate([x, x], 1)),
        ("Pad", "Pad", 13, [x, pads], {}, lambda: np.pad(x, widths)),
        ("Pad, reflect", "Pad", 13, [x, pads], {"mode": "reflect"}, lambda: np.pad(x, widths, "reflect")),
        ("Where", "Where", 16, [mask, scores, low], {}, lambda: np.where(mask, scores, low)),
        ("Tile", "Tile", 13, [table[:512], i64(4, 2)], {}, lambda: np.tile(table[:512], (4, 2))),
        ("ScatterND", "ScatterND", 18, [table, ids[:, :, None], table[ids]], {}, lambda: _scatter(table, ids)),
        ("OneHot", "OneHot", 11, [ids, np.array(1000), np.array([0, 1], np.float32)], {},
         lambda: (ids[..., None] == np.arange(1000)).astype(np.float32)),
        ("NonZero", "NonZero", 13, [mask], {}, lambda: np.array(np.nonzero(mask))),
    ]  # fmt: skip


def _scatter(table: Any, ids: Any) -> Any:
    result = table.copy()
    result[ids] = table[ids]
    return result


def forest(trees: int = 200, depth: int = 6) -> dict[str, Any]:
    """Attributes of a regressor of complete trees over eight features."""
    rng = np.random.default_rng(0)
    inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    order = np.arange(nodes)
    split = order < inner
    each = {
        "nodes_nodeids": order,
        "nodes_truenodeids": np.where(split, 2 * order + 1, 0),
        "nodes_falsenodeids": np.where(split, 2 * order + 2, 0),
    }
    every = {name: tuple(np.tile(values, trees).tolist()) for name, values in each.items()}
    leaves = np.tile(order[~split], trees).tolist()
    return every | {
        "nodes_modes": tuple(["BRANCH_LEQ" if s else "LEAF" for s in split] * trees),
        "nodes_treeids": tuple(np.repeat(np.arange(trees), nodes).tolist()),
        "nodes_featureids": tuple(rng.integers(0, 8, trees * nodes).tolist()),
        "nodes_values": tuple(rng.standard_normal(trees * nodes).tolist()),
        "target_nodeids": tuple(leaves),
        "target_treeids": tuple(np.repeat(np.arange(trees), nodes - inner).tolist()),
        "target_ids": (0,) * len(leaves),
        "target_weights": tuple(rng.standard_normal(len(leaves)).tolist()),
        "n_targets": 1,
    }


def walk(trees: int, x: Any, model: dict[str, Any]) -> float:
    """The plain walk, one row and tree at a time."""
    nodes = len(model["nodes_modes"]) // trees
    weights = dict(zip(zip(model["target_treeids"], model["target_nodeids"], strict=True), model["target_weights"],
                       strict=True))  # fmt: skip
    total = 0.0
    for row in x:
        for tree in range(trees):
            node = 0
            while model["nodes_modes"][tree * nodes + node] != "LEAF":
                place = tree * nodes + node
                taken = row[model["nodes_featureids"][place]] <= model["nodes_values"][place]
                node = model["nodes_truenodeids" if taken else "nodes_falsenodeids"][place]
            total += weights[tree, node]
    return total


def main() -> None:
    """Print a line per case: microseconds of ours, of numpy, and their ratio (below 1: ours is quicker)."""
    load()
    print(f"{'case':20} {'ours µs':>10} {'numpy µs':>10} {'ratio':>7}")
    for name, op_type, opset, inputs, attributes, plain in cases():
        function = find(op_type, opset).function
        ours = best(partial(function, *inputs, **attributes))
        theirs = best(plain)
        print(f"{name:20} {ours * 1e6:10.1f} {theirs * 1e6:10.1f} {ours / theirs:7.2f}")
    model = forest()
    prepare = find("TreeEnsembleRegressor", 3, "ai.onnx.ml").prepare
    assert prepare is not None
    run = prepare([None], **model)
    assert run is not None
    x = np.random.default_rng(1).standard_normal((20, 8)).astype(np.float32)
    ours, theirs = best(lambda: run(x)), best(lambda: walk(200, x, model))
    print(f"{'200 trees, 20 rows':20} {ours * 1e6:10.1f} {theirs * 1e6:10.1f} {ours / theirs:7.3f}  (plain walk)")


if __name__ == "__main__":
    main()
