"""GreedySearch, Sampling and BeamSearch around a small decoder, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.session import Session
from onnx_workbench.model.io.reader.read import load
from tests.onnx_runtime import session_or_skip

WORDS, SIZE, EOS, PAD, PLACES = 11, 4, 9, 10, 100_000
IDS = np.array([[3, 4, 5], [PAD, 2, 6]], np.int32)
FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32
OUTPUTS = {
    "GreedySearch": {"sequences": INT32},
    "Sampling": {"sequences": INT32, "filtered": FLOAT},
    "BeamSearch": {"sequences": INT32, "scores": FLOAT},
}


def i32(*values: int) -> Any:
    return np.array(values, np.int32)


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


def info(name: str, element: int, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, element, shape)


def decoder(seed: int) -> Any:
    """A subgraph as of GPT-2, with one layer that remembers the embeddings of all tokens; words follow their sum."""
    random = np.random.default_rng(seed)
    weights = {
        "words": random.standard_normal((WORDS, SIZE)), "places": random.standard_normal((PLACES, SIZE)),
        "out": 1.5 * random.standard_normal((SIZE, WORDS)),
    }  # fmt: skip
    axes = {"front": [0, 1], "around": [0, 2, 4], "summed": [0, 2, 3], "middle": [1]}
    nodes = [
        ("Gather", ["words", "input_ids"], "word", {}),
        ("Gather", ["places", "position_ids"], "place", {}),
        ("Add", ["word", "place"], "embedded", {}),
        ("Unsqueeze", ["embedded", "front"], "raised", {}),
        ("Transpose", ["raised"], "layer", {"perm": [0, 2, 1, 3, 4]}),
        ("Concat", ["layer", "layer"], "both", {"axis": 0}),
        ("Concat", ["past_0", "both"], "present_0", {"axis": 3}),
        ("Cast", ["attention_mask"], "counts", {"to": FLOAT}),
        ("Unsqueeze", ["counts", "around"], "shares", {}),
        ("Mul", ["present_0", "shares"], "seen", {}),
        ("ReduceSum", ["seen", "summed"], "total", {"keepdims": 0}),
        ("Unsqueeze", ["total", "middle"], "state", {}),
        ("Add", ["embedded", "state"], "hidden", {}),
        ("MatMul", ["hidden", "out"], "logits", {}),
    ]
    return helper.make_graph(
        [helper.make_node(op, inputs, [output], **more) for op, inputs, output, more in nodes],
        "decoder",
        [
            info("input_ids", INT32, "b", "s"), info("position_ids", INT32, "b", "s"),
            info("attention_mask", INT32, "b", "t"), info("past_0", FLOAT, 2, "b", 1, "p", SIZE),
        ],
        [info("logits", FLOAT, "b", "s", WORDS), info("present_0", FLOAT, 2, "b", 1, "t", SIZE)],
        [
            *[numpy_helper.from_array(v.astype(np.float32), n) for n, v in weights.items()],
            *[numpy_helper.from_array(np.array(v), n) for n, v in axes.items()],
        ],
    )  # fmt: skip


def built(op_type: str, inputs: list[Any], *, seed: int = 0, **attributes: Any) -> tuple[bytes, dict[str, Any]]:
    """A model of one node, and its feeds; inputs of None are left out."""
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(inputs)]
    feeds = {n: v for n, v in zip(names, inputs, strict=True) if n}
    given = {"eos_token_id": EOS, "pad_token_id": PAD} | attributes
    graph = helper.make_graph(
        [
            helper.make_node(
                op_type, names, list(OUTPUTS[op_type]), domain="com.microsoft", decoder=decoder(seed), **given
            )
        ],
        "g",
        [info(n, FLOAT if v.dtype == np.float32 else INT32, *v.shape) for n, v in feeds.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in OUTPUTS[op_type].items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString(), feeds


def ours(op_type: str, inputs: list[Any], run_seed: int = 0, **more: Any) -> RunResult:
    model, feeds = built(op_type, inputs, **more)
    return Session(load(model)).run(feeds, seed=run_seed)


CASES = [
    ("GreedySearch", [IDS, i32(12)], {}),
    ("GreedySearch", [IDS, i32(12), i32(8), f32(1.5)], {"no_repeat_ngram_size": 2}),
    ("GreedySearch", [IDS, i32(9), None, None, i32(1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1)], {}),
    ("GreedySearch", [IDS, i32(9), None, None, None, None, i32(1, 1, 1, 0, 1, 1).reshape(2, 3)], {}),
    ("Sampling", [IDS, i32(12), i32(1), f32(1)], {"top_p": 1e-6}),
    ("BeamSearch", [IDS, i32(12), i32(1), i32(3), i32(2), f32(1), f32(1)], {}),
    ("BeamSearch", [IDS, i32(12), i32(6), i32(4), i32(4), f32(0.7), f32(1.3)],
     {"early_stopping": 1, "no_repeat_ngram_size": 2}),
    ("BeamSearch", [IDS, i32(8), i32(0), i32(1), i32(1), f32(1), f32(1)], {}),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("op_type", "inputs", "attributes"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_agrees_with_onnxruntime(op_type: str, inputs: list[Any], attributes: dict[str, Any], seed: int) -> None:
    model, feeds = built(op_type, inputs, seed=seed, **attributes)
    session = session_or_skip(model)
    names = [n for n in OUTPUTS[op_type] if n != "filtered"]
    expected = session.run(names, feeds)
    found = Session(load(model)).run(feeds).raise_for_failure()
    for name, reference in zip(names, expected, strict=True):
        value = found.values[name]
        assert value.shape == reference.shape
        if op_type != "BeamSearch":
            # ONNX Runtime leaves what comes after the end of all sequences as it was in memory.
            end = 1 + int(np.flatnonzero((value != PAD).any(0)).max())
            value, reference = value[:, :end], reference[:, :end]
        np.testing.assert_allclose(value, reference, rtol=1e-4, atol=1e-5)


def test_sampling_follows_the_seed_among_the_most_probable() -> None:
    inputs = [IDS, i32(30), i32(30), f32(1), None, None, None, None, None]
    first, again, other = (
        ours("Sampling", inputs, seed, temperature=2.0, top_p=0.6).raise_for_failure() for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.values["sequences"], again.values["sequences"])
    assert not np.array_equal(first.values["sequences"], other.values["sequences"])
    scores = first.values["filtered"]
    for row, token in zip(scores, first.values["sequences"][:, -1], strict=True):
        assert row[token] > -1e19
    given = ours("Sampling", [*inputs[:8], i32(7)], 1, temperature=2.0).raise_for_failure()
    also = ours("Sampling", [*inputs[:8], i32(7)], 2, temperature=2.0).raise_for_failure()
    np.testing.assert_array_equal(given.values["sequences"], also.values["sequences"])


def test_more_beams_never_find_worse() -> None:
    scores = [
        ours("BeamSearch", [IDS, i32(7), i32(7), i32(n), i32(1), f32(0)], eos_token_id=0).values["scores"][:, 0]
        for n in (1, WORDS**2)
    ]
    assert (scores[1] >= scores[0] - 1e-5).all()


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("GreedySearch", [IDS, i32(12)], {"model_type": 1}),
        ("GreedySearch", [IDS, i32(3)], {}),
        ("GreedySearch", [IDS, i32(12)], {"eos_token_id": 99}),
        ("GreedySearch", [IDS + 20, i32(12), None, f32(2)], {}),
        ("Sampling", [IDS, i32(12)], {"temperature": 0.0}),
        ("BeamSearch", [IDS, i32(12), None, i32(2), i32(3)], {}),
        ("BeamSearch", [IDS, i32(12), None, i32(0), i32(0)], {}),
        ("BeamSearch", [IDS, i32(12), None, i32(2), i32(1), None, None, None, None, i32(1)], {}),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_does_not_fit_is_refused(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    failures = ours(op_type, inputs, **attributes).failures
    assert [f.kind for f in failures] == ["KernelError"] or failures[0].inner is not None


def test_a_length_past_the_memory_limit_is_refused() -> None:
    model, feeds = built("GreedySearch", [IDS, i32(2**30)])
    assert [f.kind for f in Session(load(model)).run(feeds, max_tensor=1 << 20).failures] == ["LimitError"]


def test_a_long_search_ends_at_the_time_limit() -> None:
    model, feeds = built("GreedySearch", [IDS, i32(100_000), i32(100_000)])
    assert Session(load(model)).run(feeds, time_limit=0.2).stopped == "time limit"
