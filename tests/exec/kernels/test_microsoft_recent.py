"""Operators of com.microsoft for today's language models: gates, linear attention, decoding with caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.registry import all_kernels
from onnx_workbench.exec.values.arrays import SparseArray
from tests.examples import examples
from tests.exec.kernels.harness import assert_same
from tests.exec.kernels.test_microsoft import (
    I32,
    I64,
    IDS,
    MS,
    ONES,
    RNG,
    F,
    X,
    f,
    i8,
    i32,
    label,
    onnxruntime,
    ours,
    s,
    u8,
    z,
    zi,
)

load()

STREAMS, FLAT = f(2, 3, 4, 8), f(2, 3, 32)
PLACES = RNG.integers(0, 10, (3, 2, 5))
TOKEN, CACHE = f(2, 1, 8), f(2, 2, 3, 4)
STEP = "DecoderMaskedMultiHeadAttention"


def linear(rule: str, queries: int, keys: int, *, state: bool = True) -> list[Any]:
    """Inputs of LinearAttention for a rule: 2 × 5 steps, keys of 4 and values of 3."""
    return [
        f(2, 5, queries * 4), f(2, 5, keys * 4) * np.float32(0.4), f(2, 5, keys * 3),
        f(2, keys, 4, 3) if state else None,
        -np.abs(f(2, 5, keys)) if rule.startswith("gated") else None,
        np.abs(f(2, 5, keys)) if rule.endswith("delta") else None,
    ]  # fmt: skip


CASES: list[tuple[str, list[Any], list[int], dict[str, Any]]] = [
    ("BranchwiseRMSNorm", [STREAMS, f(8)], [F], {}),
    ("BranchwiseRMSNorm", [STREAMS, f(4, 8)], [F], {"epsilon": 0.1}),
    ("BranchwiseRMSNorm", [FLAT, f(32)], [F], {"num_branches": 4}),
    ("BranchwiseRMSNorm", [FLAT], [F], {"num_branches": 4}),
    *[
        ("GatedRMSNorm", [f(2, 3, 16), f(8), f(2, 3, 16)], [F], {"activation": name})
        for name in ("silu", "swish", "sigmoid")
    ],
    ("GatedAdd", [X, f(2, 3, 8), f(2, 3, 1)], [F], {}),
    ("ScaledSiLU", [X], [F], {"alpha": 1.7}),
    ("ScaledSiLU", [X, s(0.3)], [F], {}),
    ("HyperConnectionPreMix", [STREAMS, f(2, 3, 4)], [F], {"reduction_scale": 0.5}),
    ("HyperConnectionPreMix", [FLAT, f(2, 3, 32)], [F], {"num_branches": 4}),
    ("HyperConnectionPostMix", [STREAMS, X, f(2, 3, 4)], [F], {}),
    ("HyperConnectionPostMix", [FLAT, X, f(2, 3, 4, 1), f(2, 3, 4, 4)], [F], {"num_branches": 4}),
    ("EngramGate", [STREAMS, f(2, 3, 4, 8), X, f(4, 8), f(4, 8), f(4, 8)], [F, F], {}),
    ("EngramGate", [STREAMS, f(2, 3, 4, 8), X, f(4, 8), f(4, 8)], [F], {}),
    *[
        ("LinearAttention", linear(rule, q, k), [F, F], {"update_rule": rule, "q_num_heads": q, "kv_num_heads": k})
        for rule in ("linear", "gated", "delta", "gated_delta")
        for q, k in ((2, 2), (4, 2), (2, 4))
    ],
    (
        "LinearAttention",
        [f(2, 5, 8), f(2, 5, 8), f(2, 5, 6), None, -np.abs(f(2, 5, 8))],
        [F, F],
        {"update_rule": "gated", "q_num_heads": 2, "kv_num_heads": 2, "scale": 0.3},
    ),
    (
        "LinearAttention",
        [f(2, 5, 8), f(2, 5, 8) * np.float32(0.4), f(2, 5, 12), None, -np.abs(f(2, 5, 4)), np.abs(f(2, 5, 1))],
        [F, F],
        {"q_num_heads": 2, "kv_num_heads": 4},
    ),
    ("LinearAttentionGate", [f(2, 3, 4), f(4), f(4), f(2, 3, 4)], [F, F], {}),
    ("LinearAttentionGate", [f(2, 3, 4), f(4), f(4)], [F], {}),
    *[
        ("CausalConvWithState", [f(2, 4, n), f(4, 1, 3), b, f(2, 4, 2 * d)], [F, F], {"dilation": d, "activation": a})
        for n, d, b, a in ((5, 1, f(4), "silu"), (5, 2, None, "none"), (1, 1, f(4), "swish"))
    ],
    ("CausalConvWithState", [f(2, 5, 4), f(4, 1, 3), f(4), f(2, 2, 4)], [F, F], {"channels_last": 1}),
    ("CausalConvWithState", [f(2, 5, 2, 2), f(4, 1, 3)], [F, F], {"channels_last": 1}),
    *[
        (
            "MRotaryEmbedding",
            [x, PLACES, f(10, 6), f(10, 6)],
            [F],
            {"mrope_section": section, "mrope_layout": layout, "interleaved": interleaved, "num_heads": 2},
        )
        for x, section in ((f(2, 5, 24), [2, 2, 2]), (f(2, 2, 5, 12), [3, 2, 1]))
        for layout in (0, 1)
        for interleaved in (0, 1)
    ],
    (
        "MRotaryEmbedding",
        [f(2, 5, 24), PLACES, f(10, 4), f(10, 4)],
        [F],
        {"mrope_section": [2, 1, 1], "num_heads": 2, "rotary_embedding_dim": 8},
    ),
    (
        STEP,
        [TOKEN, CACHE, f(2, 2, 3, 4), None, None, None, None, None, None, None, f(24)],
        [F, 0, 0, F],
        {"num_heads": 2, "output_qk": 1},
    ),
    (
        STEP,
        [TOKEN, CACHE, f(2, 2, 3, 4), np.array([[1, 1, 0], [0, 1, 1]], np.int32)],
        [F, 0, 0, F],
        {"num_heads": 2, "output_qk": 1, "scale": 0.4},
    ),
    (
        STEP,
        [TOKEN, f(2, 1, 8), f(2, 1, 8), None, None, f(2, 2, 6, 4), f(2, 2, 6, 4), i32(3)],
        [F, F, F],
        {"num_heads": 2, "past_present_share_buffer": 1},
    ),
    (
        STEP,
        [TOKEN, f(2, 1, 8), f(2, 1, 8), None, None, f(2, 2, 6, 4), f(2, 2, 6, 4), i32(3), i32(2),
         RNG.integers(0, 2, (1, 2, 6)).astype(np.int32)],
        [F, F, F],
        {"num_heads": 2, "past_present_share_buffer": 1},
    ),
]  # fmt: skip


def masks(*shape: int) -> list[Any]:
    """Masks of MaxpoolWithMask for every plane, for those of one entry, for one, with a few zeros."""
    lead = ((shape[0], shape[1]), (1, shape[1]), (shape[0], 1), (1, 1))
    return [(RNG.random((*two, *shape[2:])) < 0.8).astype(np.int32) for two in lead]


CASES += [
    *[
        ("MaxpoolWithMask", [f(*shape), mask], [F], {"kernel_shape": kernel, **more})
        for shape, kernel, more in (
            ((2, 3, 9), [3], {}),
            ((2, 3, 9), [3], {"strides": [2], "pads": [1, 1]}),
            ((2, 3, 6, 7), [3, 2], {"strides": [1, 2], "pads": [1, 0, 1, 1]}),
            ((1, 2, 4, 5, 6), [2, 2, 3], {}),
        )
        for mask in masks(*shape)
    ],
    *[
        ("WordConvEmbedding", [np.array(words, np.int32), f(6, 1, width, 4), f(6), f(5, 4)], [F], {})
        for width in (1, 2, 3)
        for words in ([[1, 2, 3, 0, 0], [2, 4, 0, 0, 0], [3, 1, 4, 2, 2]], [[1, 3, 0, 2, 1]], [[1, 2, 3]])
    ],
    *[("DynamicTimeWarping", [f(*n)], [I32], {}) for n in ((4, 7), (7, 4), (1, 5), (5, 1), (1, 6, 6), (30, 90))],
    (
        "QEmbedLayerNormalization",
        [IDS, IDS % 2, u8(5, 8), u8(6, 8), u8(2, 8), u8(8), u8(8), ONES,
         s(0.1), s(0.2), s(0.1), s(0.1), s(0.2), z(3), z(100), z(90), z(120), z(4)],
        [F, I32],
        {},
    ),
    (
        "QEmbedLayerNormalization",
        [IDS, None, i8(5, 8), i8(6, 8), None, i8(8), i8(8), None,
         s(0.1), s(0.2), None, s(0.1), s(0.2), zi(3), zi(10), None, zi(12), zi(4)],
        [F, I32],
        {},
    ),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("op_type", "inputs", "types", "attributes"), CASES, ids=label)
def test_agrees_with_onnxruntime(op_type: str, inputs: list[Any], types: list[int], attributes: Any) -> None:
    expected = onnxruntime(op_type, inputs, types, MS, attributes)
    found = ours(op_type, inputs, len(types), **attributes)
    for value, reference in zip([v for v, t in zip(found, types, strict=False) if t], expected, strict=True):
        assert_same(value, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [1, 3, 7])
def test_a_window_of_states_holds_those_after_the_last_steps(window: int) -> None:
    inputs = linear("gated_delta", 2, 2)
    heads: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2}
    padded = [
        *inputs[:3],
        np.concatenate([np.zeros((window - 1, 2, 2, 4, 3), np.float32), inputs[3][None]]),
        *inputs[4:],
    ]
    y, kept = ours("LinearAttention", padded, 2, state_window=window, **heads)
    assert_same(y, ours("LinearAttention", inputs, **heads)[0])
    for slot, state in enumerate(kept):
        steps = 5 - window + slot + 1
        if steps <= 0:
            assert not state.any()
            continue
        prefix = [v if v is None or v.ndim == 4 else v[:, :steps] for v in inputs]
        assert_same(state, ours("LinearAttention", prefix, 2, **heads)[1])


@pytest.mark.parametrize("window", [2, 7])
@pytest.mark.parametrize("last", [0, 1])
def test_a_window_of_carried_steps_holds_those_before_each_place(window: int, last: int) -> None:
    x, weight, past = f(2, 4, 5), f(4, 1, 3), f(window, 2, 4, 2)
    turned = [v.swapaxes(-1, -2) if last else v for v in (x, past)]
    kept = ours(
        "CausalConvWithState", [turned[0], weight, None, turned[1]], 2, state_window=window, channels_last=last
    )[1]
    for slot, state in enumerate(kept.swapaxes(-1, -2) if last else kept):
        steps = 5 - window + slot + 1
        if steps <= 0:
            assert not state.any()
            continue
        assert_same(state, ours("CausalConvWithState", [x[:, :, :steps], weight, None, past[-1]], 2)[1])


def test_a_step_with_a_growing_cache_is_multi_head_attention() -> None:
    key, value, past_value, bias = f(2, 1, 8), f(2, 1, 8), f(2, 2, 3, 4), f(24)
    mask = np.array([[1, 1, 0, 1], [0, 1, 1, 1]], np.int32)
    found = ours(
        STEP, [TOKEN, key, value, mask, None, CACHE, past_value, None, None, None, bias], 3, num_heads=2
    )  # fmt: skip
    expected = ours("MultiHeadAttention", [TOKEN, key, value, bias, mask, None, CACHE, past_value], 3, num_heads=2)
    for one, other in zip(found[:3], expected, strict=True):
        assert_same(one, other)
    packed = np.concatenate([TOKEN, key, value], 2)
    again = ours(STEP, [packed, None, None, mask, None, CACHE, past_value, None, None, None, bias], num_heads=2)
    assert_same(again[0], found[0])


def test_a_projected_step_is_attention_with_a_past() -> None:
    weights, bias, past = f(8, 24), f(24), f(2, 2, 2, 3, 4)
    found = ours("DecoderMaskedSelfAttention", [TOKEN, weights, bias, None, past, None, i32(3)], 2, num_heads=2)
    expected = ours("Attention", [TOKEN, weights, bias, None, past], 2, num_heads=2)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("past", [False, True])
def test_decoder_attention_takes_keys_from_where_its_inputs_say(cross: bool, past: bool) -> None:
    query, key, bias = f(1, 2, 8), f(5, 2, 8), f(24)
    q_weight, kv_weight = f(8, 8), f(8, 16)
    caches = [f(2, 2, 5, 4), f(2, 2, 5, 4)]
    hidden = RNG.integers(0, 2, (2, 5 + (past and not cross) if cross or past else 1)).astype(bool)
    hidden[:, 0] = False
    flags = [np.array(v) for v in (cross, past, True, True)]
    inputs = [query, key, q_weight, kv_weight, bias, hidden, *caches, *flags]
    y, new_key, new_value = ours("DecoderAttention", inputs, 3, num_heads=2)
    source = (key if cross else query).transpose(1, 0, 2)
    k, v = (
        part.reshape(2, -1, 2, 4).transpose(0, 2, 1, 3) for part in np.split(source @ kv_weight + bias[8:], 2, axis=2)
    )
    if past:
        k, v = caches if cross else [np.concatenate([c, n], 2) for c, n in zip(caches, (k, v), strict=True)]
    q = (query.transpose(1, 0, 2) @ q_weight + bias[:8]).reshape(2, 1, 2, 4).transpose(0, 2, 1, 3)
    scores = q @ k.swapaxes(2, 3) / 2 + np.where(hidden, -10000, 0)[:, None, None]
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    expected = powers / powers.sum(-1, keepdims=True) @ v
    assert_same(y[0], expected.transpose(0, 2, 1, 3).reshape(2, 8).astype(np.float32), rtol=1e-4, atol=1e-5)
    assert_same(new_key, np.asarray(k, np.float32), rtol=1e-4, atol=1e-5)
    assert_same(new_value, np.asarray(v, np.float32), rtol=1e-4, atol=1e-5)


def test_angles_of_gemma_are_rounded_first() -> None:
    emb = f(2, 3, 4)
    q, q_rot, k, k_rot = (f(2, 2, 3, 4).astype(np.float16) for _ in range(4))
    found = ours("GemmaRotaryEmbedding", [emb, q, q_rot, k, k_rot], 2)
    cos, sin = np.cos(emb)[:, None].astype(np.float16), np.sin(emb)[:, None].astype(np.float16)
    assert_same(found[0], q * cos + q_rot * sin)
    assert_same(found[1], k * cos + k_rot * sin)


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_predicted_tokens_are_taken_up_to_the_first_that_differs(data: st.DataObject) -> None:
    token = st.integers(0, 3)
    source = np.array(data.draw(st.lists(token, min_size=1, max_size=9)))
    now = np.array(data.draw(st.lists(token, min_size=1, max_size=6)))
    start = data.draw(st.integers(0, len(source)))
    predicted = np.append(source[start:], 1)
    predicted[data.draw(st.integers(0, len(predicted) - 1))] = data.draw(token)
    inputs = [source, now, np.array([start]), predicted if data.draw(st.booleans()) else None]
    for one, other in zip(
        ours("BifurcationDetector", inputs, 2),
        onnxruntime("BifurcationDetector", inputs, [I64, I64], MS, {}),
        strict=True,
    ):
        assert_same(one, other)


def test_a_long_path_is_the_cheapest() -> None:
    costs = np.abs(f(20, 33))
    path = ours("DynamicTimeWarping", [costs])[0]
    steps = np.diff(path, axis=1)
    assert path[:, 0].tolist() == [0, 0]
    assert path[:, -1].tolist() == [19, 32]
    assert set(map(tuple, steps.T.tolist())) <= {(0, 1), (1, 0), (1, 1)}
    totals = np.full((21, 34), np.inf)
    totals[0, 0] = 0
    for row, column in np.ndindex(20, 33):
        before = min(totals[row, column], totals[row, column + 1], totals[row + 1, column])
        totals[row + 1, column + 1] = costs[row, column] + before
    np.testing.assert_allclose(costs[tuple(path)].sum(), totals[-1, -1], rtol=1e-4)


@pytest.mark.parametrize("packed", [False, True])
def test_a_bias_by_position_is_gated_by_each_query(packed: bool) -> None:
    query, bias, rel_pos, weight, own, eco = f(2, 3, 8), f(8), f(1, 2, 3, 3), f(4, 6), f(6), f(1, 2, 1, 1)
    gate = ((query + bias).reshape(2, 3, 2, 4).transpose(0, 2, 1, 3) @ weight + own).reshape(2, 2, 3, 2, 3).sum(-1)
    u, r = np.split(1 / (1 + np.exp(-gate)), 2, axis=-1)
    expected = (u * (r * eco - 1) + 2) * rel_pos
    given_query, offsets = query, None
    if packed:
        given_query, offsets = query.reshape(6, 8), np.arange(6, dtype=np.int32).reshape(2, 3)
    found = ours("GatedRelativePositionBias", [given_query, bias, rel_pos, weight, own, eco, offsets], num_heads=2)[0]
    assert_same(found, expected.astype(np.float32), rtol=1e-4, atol=1e-5)


def test_a_sparse_matrix_is_multiplied_as_the_dense_one() -> None:
    dense = np.zeros((3, 4), np.float32)
    places = np.array([[0, 1], [2, 0], [2, 3]])
    dense[tuple(places.T)] = [2, 3, 4]
    sparse = SparseArray(np.array([2, 3, 4], np.float32), places, (3, 4))
    b = f(3, 5)
    assert_same(ours("SparseToDenseMatMul", [sparse, b], transA=1, alpha=0.5)[0], (dense.T @ b) / 2, rtol=1e-5)
    other = f(5, 4)
    assert_same(ours("SparseToDenseMatMul", [sparse, other], transB=1)[0], dense @ other.T, rtol=1e-5)


ORDERS = {"columns": 0, "rows": 1, "32 columns": 2}


def laid(x: Any, order: int) -> Any:
    """An array whose memory has its matrices in an order, element by element."""
    rows, columns = x.shape[-2:]
    result = np.empty_like(x).reshape(-1, rows * columns)
    for row, column in np.ndindex(rows, columns):
        place = {
            0: column * rows + row,
            1: row * columns + column,
            2: column // 32 * 32 * rows + row * 32 + column % 32,
        }
        result[:, place[order]] = x.reshape(-1, rows, columns)[:, row, column]
    return result.reshape(x.shape)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_quantized_matrices_are_laid_out_in_their_order(order: int) -> None:
    x = f(2, 3, 64)
    codes = np.clip(np.rint(x / np.float32(0.02)), -128, 127).astype(np.int8)
    found = ours("QuantizeWithOrder", [x, s(0.02)], order_input=1, order_output=order)[0]
    assert_same(found, laid(codes, order))
    back = ours("DequantizeWithOrder", [found, s(0.02)], order_input=order, order_output=1, to=1)[0]
    assert_same(back, codes * np.float32(0.02))
    half = ours("DequantizeWithOrder", [found, s(0.02)], order_input=order, order_output=order, to=10)[0]
    assert_same(half, laid((codes * np.float32(0.02)).astype(np.float16), order))


@pytest.mark.parametrize("per_column", [False, True])
def test_a_quantized_product_is_that_of_the_real_numbers(per_column: bool) -> None:
    a, b, c = i8(2, 3, 64), i8(64, 5), i8(2, 3, 5)
    scale, bias = np.abs(f(5)) if per_column else s(0.01), f(5)
    real = (a.astype(np.float64) * 0.02) @ (b * scale.astype(np.float64)) + bias + c * 0.5
    found = ours(
        "QOrderedMatMul", [a, s(0.02), laid(b, 0), scale, s(1.5), bias, c, s(0.5)], order_A=1, order_B=0, order_Y=1
    )[0]
    assert found.dtype == np.int8
    assert np.abs(found - np.clip(real / 1.5, -128, 127)).max() < 0.502


def test_quantized_layers_are_those_of_the_real_numbers() -> None:
    x, gamma, beta = i8(2, 3, 64), f(64), f(64)
    real = x * np.float32(0.05)
    found = ours("QOrderedGelu", [x, s(0.05), s(0.03)], order_X=2, order_Y=2)[0]
    assert np.abs(found - np.clip(ours("Gelu", [real])[0] / 0.03, -128, 127)).max() < 0.502
    wanted = (real - real.mean(-1, keepdims=True)) / real.std(-1, keepdims=True) * gamma + beta
    found = ours("QOrderedLayerNormalization", [laid(x, 2), s(0.05), gamma, beta, s(0.03)], order_X=2, order_Y=2)[0]
    assert np.abs(found - laid(np.clip(wanted / 0.03, -128, 127), 2)).max() < 0.51


@pytest.mark.parametrize("more", [{}, {"unidirectional": 1}])
def test_quantized_attention_is_near_that_of_the_real_numbers(more: dict[str, int]) -> None:
    x, weights, biases = i8(2, 3, 8), [i8(8, 8) for _ in range(3)], [f(8) for _ in range(3)]
    step, own = 0.01, np.float32(0.002)
    real = (x * np.float32(step), np.concatenate([w * own for w in weights], 1), np.concatenate(biases))
    wanted = ours("Attention", list(real), num_heads=2, **more)[0]
    scales = [s(0.03)] * 3
    ordered = [laid(w, 0) for w in weights]
    mine = [x, s(step), *scales, *ordered, *[s(0.002)] * 3, *biases, s(0.05), s(1 / 127), s(0.03)]
    found = ours("QOrderedAttention", mine, num_heads=2, order_input=1, order_weight=0, order_output=1, **more)[0]
    assert found.dtype == np.int8
    np.testing.assert_allclose(found * 0.03, wanted, atol=0.1)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_a_net_of_tokens_is_linear_attention(rule: str) -> None:
    query, key, value, state, decay, beta = linear(rule, 2, 2)
    expected = ours("LinearAttention", [query, key, value, state, decay, beta], 2,
                    q_num_heads=2, kv_num_heads=2, update_rule=rule)  # fmt: skip
    tables = [query.reshape(2, 5, 2, 4), key.reshape(2, 5, 2, 4), value.reshape(2, 5, 2, 3)]
    turned = state.swapaxes(2, 3).copy()
    y, final = ours("GatedDeltaNet", [*tables, None, decay, beta, turned], 2, update_rule=rule)
    assert_same(y.reshape(2, 5, 6), expected[0], rtol=1e-4, atol=1e-5)
    assert_same(final.swapaxes(2, 3), expected[1], rtol=1e-4, atol=1e-5)
    flat = [t.reshape(10, *t.shape[2:]) for t in tables]
    gates = [None if g is None else g.reshape(10, 2) for g in (decay, beta)]
    again = ours("GatedDeltaNet", [*flat, i32(0, 5, 10), *gates, turned], 2, update_rule=rule)
    assert_same(again[0].reshape(y.shape), y)
    packed = np.concatenate([t.reshape(10, -1) for t in tables], 1)
    whole = ours("GatedDeltaNet", [packed, None, None, None, *gates, turned], 2, update_rule=rule)
    assert_same(whole[0].reshape(y.shape), y)
    ragged = ours("GatedDeltaNet", [*flat, i32(0, 3, 10), *gates, turned], 2, update_rule=rule)
    alone = [t[:3] for t in flat]
    first = ours("GatedDeltaNet", [*alone, i32(0, 3), *[None if g is None else g[:3] for g in gates], turned[:1]], 2,
                 update_rule=rule)  # fmt: skip
    assert_same(ragged[0][:3], first[0])
    assert_same(ragged[1][:1], first[1])


def test_a_net_of_tokens_makes_its_gates_itself() -> None:
    q, k, v, a, b = f(1, 5, 2, 4), f(1, 5, 2, 4), f(1, 5, 2, 3), f(1, 5, 2), f(1, 5, 2)
    a_log, shift = f(2), f(2)
    decay, beta = ours("LinearAttentionGate", [a, shift, -np.exp(a_log), b], 2)
    unit = [x / np.sqrt(np.square(x).sum(-1, keepdims=True) + np.float32(1e-6)) for x in (q, k)]
    expected = ours("GatedDeltaNet", [*unit, v, None, decay, beta], 2)
    found = ours(
        "GatedDeltaNet", [q, k, v, None, a, b, None, a_log, shift], 2, gate_activation="qwen",
        beta_activation="sigmoid", qk_l2_norm=1,
    )  # fmt: skip
    assert_same(found[0], expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("LongformerAttention", [X, f(8, 24), f(24), f(2, 4), f(8, 24), f(24), ONES], {"num_heads": 2, "window": 1}),
        ("GatedDeltaNet", [f(9, 2, 4), f(9, 2, 4), f(9, 2, 3)], {"update_rule": "linear"}),
        ("GatedDeltaNet", [f(9, 2, 4), f(9, 2, 4), f(9, 2, 3), i32(0, 9)], {}),
        ("GatedDeltaNet", [f(9, 2, 4), f(9, 2, 4), f(9, 2, 3), i32(0, 99)], {"update_rule": "linear"}),
        (
            "PagedAttention",
            [f(1, 8), f(1, 8), f(1, 8), f(2, 4, 1, 8), f(2, 4, 1, 8), i32(0, 1), i32(3), np.array([[7]], np.int32)],
            {"num_heads": 1, "kv_num_heads": 1},
        ),
        (
            "PagedAttention",
            [f(1, 8), f(1, 8), f(1, 8), f(2, 4, 1, 8), f(2, 4, 1, 8), i32(0, 1), i32(9), np.array([[1]], np.int32)],
            {"num_heads": 1, "kv_num_heads": 1},
        ),
        ("MaxpoolWithMask", [f(1, 2, 5), np.ones((1, 2, 4), np.int32)], {"kernel_shape": (2,)}),
        ("WordConvEmbedding", [i32(1, 2)[None], f(6, 1, 2, 4), f(6), f(5, 3)], {}),
        ("DynamicTimeWarping", [f(2, 3, 4)], {}),
        ("BifurcationDetector", [i32(1, 2), i32(1), i32(5), i32(1)], {}),
        ("GatedRelativePositionBias", [X, f(8), f(1, 2, 3, 3), f(4, 5), f(5), f(1, 2, 1, 1)], {"num_heads": 2}),
        ("SparseToDenseMatMul", [f(3), f(3, 3)], {}),
        ("QuantizeWithOrder", [X, s(1)], {"order_input": 1, "order_output": 3}),
        ("QuantizeWithOrder", [X, s(1)], {"order_input": 1, "order_output": 2}),
        ("QuantizeWithOrder", [X, f(2)], {"order_input": 1, "order_output": 1}),
        ("BranchwiseRMSNorm", [f(2, 3, 31)], {"num_branches": 4}),
        ("GatedRMSNorm", [f(2, 9), f(8), f(2, 9)], {}),
        ("GatedRMSNorm", [f(2, 8), f(8), f(2, 8)], {"activation": "boom"}),
        ("GatedAdd", [X, X, X], {}),
        ("ScaledSiLU", [X, f(3)], {}),
        ("HyperConnectionPreMix", [STREAMS, f(2, 3, 5)], {}),
        ("HyperConnectionPostMix", [STREAMS, f(2, 3, 7), f(2, 3, 4)], {}),
        ("EngramGate", [STREAMS, STREAMS, f(2, 3, 9), f(4, 8), f(4, 8)], {}),
        ("LinearAttention", linear("linear", 2, 2), {"q_num_heads": 2, "kv_num_heads": 2}),
        ("LinearAttention", linear("linear", 2, 2), {"q_num_heads": 3, "kv_num_heads": 2, "update_rule": "linear"}),
        ("LinearAttention", linear("gated_delta", 2, 2), {"q_num_heads": 2, "kv_num_heads": 2, "state_window": 2**40}),
        ("CausalConvWithState", [f(2, 4, 5), f(4, 1, 3)], {"ndim": 2}),
        ("CausalConvWithState", [f(2, 4, 5), f(4, 1, 3)], {"dilation": 0}),
        ("CausalConvWithState", [f(2, 4, 5), f(4, 1, 3), None, f(2, 4, 3)], {}),
        ("MRotaryEmbedding", [f(2, 5, 24), PLACES, f(10, 6), f(10, 6)], {"mrope_section": [1, 1, 1]}),
        ("MRotaryEmbedding", [f(2, 5, 24), PLACES + 9, f(10, 6), f(10, 6)], {"mrope_section": [2, 2, 2]}),
        (STEP, [f(2, 3, 8), f(2, 3, 8), f(2, 3, 8)], {"num_heads": 2}),
        (
            STEP,
            [TOKEN, TOKEN, TOKEN, None, None, CACHE, CACHE, i32(3)],
            {"num_heads": 2, "past_present_share_buffer": 1},
        ),
        (
            STEP,
            [TOKEN, TOKEN, TOKEN, None, None, CACHE, CACHE, i32(2), i32(2), np.full((1, 2, 3), 9, np.int32)],
            {"num_heads": 2, "past_present_share_buffer": 1},
        ),
    ],
    ids=label,
)
def test_what_does_not_fit_is_refused(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    with pytest.raises(KernelError):
        ours(op_type, inputs, 0, **attributes)


def test_every_kernel_has_the_signature_of_onnxruntime() -> None:
    """That of version 1.31; a newer one may have added attributes and inputs at the end, and takes none away."""
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    import onnxruntime

    same = onnxruntime.__version__.startswith("1.31.")
    schemas = {s.name: s for s in state.get_all_operator_schema() if s.domain == MS}
    kernels = [k for k in all_kernels() if k.domain == MS and k.op_type in schemas]
    assert len(kernels) > 80
    for kernel in kernels:
        schema = schemas[kernel.op_type]
        if not kernel.any_attributes:
            assert set(kernel.attributes) <= set(schema.attributes), kernel
            assert not same or len(kernel.attributes) == len(schema.attributes), kernel
        if not kernel.variadic:
            assert len(kernel.inputs) <= len(schema.inputs), kernel
            assert not same or len(kernel.inputs) == len(schema.inputs), kernel
