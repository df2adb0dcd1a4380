"""Attention and its relatives, Dropout, Flatten, Shrink, TfIdfVectorizer, Col2Im, DeformConv beyond node cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.errors import KernelError, LimitError
from onnx_workbench.exec.values.limits import Limits, set_limits
from tests.examples import examples
from tests.exec.kernels.harness import call

RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def attend(q: Any, k: Any, v: Any, bias: Any) -> Any:
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, axis=1).astype(np.float64), v.repeat(group, axis=1).astype(np.float64)
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3]) + bias
    largest = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isinf(largest), 0, largest))
    total = e.sum(axis=-1, keepdims=True)
    return (e / np.where(total == 0, 1, total)) @ v


@settings(max_examples=examples(40), deadline=None)
@given(*[st.integers(1, 3)] * 3, st.integers(1, 5), st.integers(1, 6), st.integers(0, 4), st.booleans(), st.booleans())
def test_attention_is_its_definition(
    batch: int, heads: int, group: int, queries: int, keys: int, past: int, causal: bool, masked: bool
) -> None:
    q, k, v = normal(batch, heads * group, queries, 4), normal(batch, heads, keys, 4), normal(batch, heads, keys, 3)
    old_k, old_v = normal(batch, heads, past, 4), normal(batch, heads, past, 3)
    mask = RNG.random((queries, past + keys)) > 0.3 if masked else None
    y, present_k, present_v, _ = call(
        *("Attention", [q, k, v, mask, old_k, old_v]), opset=23, outputs=3, is_causal=int(causal)
    )
    all_k, all_v = np.concatenate([old_k, k], axis=2), np.concatenate([old_v, v], axis=2)
    np.testing.assert_array_equal(present_k, all_k)
    np.testing.assert_array_equal(present_v, all_v)
    bias = np.zeros((queries, past + keys)) if mask is None else np.where(mask, 0, -np.inf)
    if causal:
        bias = bias + np.where(np.arange(past + keys) <= np.arange(queries)[:, None] + past, 0, -np.inf)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(y, attend(q, all_k, all_v, bias), rtol=1e-3, atol=1e-4)


def test_attention_windows_and_padding_compose() -> None:
    q, k, v = normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4)
    filled = np.array([4, 5])
    y = call("Attention", [q, k, v, None, None, None, filled], opset=25, left_window_size=1, right_window_size=0)[0]
    at = (filled - 3)[:, None, None] + np.arange(3)[:, None]
    key = np.arange(5)
    seen = (key >= at - 1) & (key <= at) & (key < filled[:, None, None])
    np.testing.assert_allclose(y, attend(q, k, v, np.where(seen, 0, -np.inf)[:, None]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "shapes", [((1, 3, 2, 4), (1, 2, 2, 4), (1, 2, 2, 4)), ((1, 2, 2, 4), (1, 2, 2, 5), (1, 2, 2, 4))]
)
def test_attention_heads_must_fit(shapes: Any) -> None:
    with pytest.raises(KernelError, match="expected"):
        call("Attention", [normal(*s) for s in shapes], opset=23)
    with pytest.raises(KernelError, match="q_num_heads"):
        call("Attention", [normal(1, 2, 8)] * 3, opset=23)


def test_linear_attention_in_pieces_is_the_whole() -> None:
    q, k, v = normal(2, 6, 8), normal(2, 6, 4) / 2, normal(2, 6, 6)
    decay, beta = -np.abs(normal(2, 6, 2)), np.abs(normal(2, 6, 2)) / 2
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    whole, state = call("LinearAttention", [q, k, v, None, decay, beta], opset=27, **heads)
    past, parts = None, []
    for part in (slice(0, 1), slice(1, 4), slice(4, 6)):
        y, past = call(
            "LinearAttention",
            [a if a is None else a[:, part] for a in (q, k, v)] + [past, decay[:, part], beta[:, part]],
            opset=27,
            **heads,
        )
        parts.append(y)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(past, state, rtol=1e-4, atol=1e-5)
    with pytest.raises(KernelError, match="beta"):
        call("LinearAttention", [q, k, v, None, decay], opset=27, **heads)


def test_rotary_embedding_keeps_lengths_and_dot_products_by_distance() -> None:
    angles = np.arange(12)[:, None] * np.array([0.3, 0.05])
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    q = np.broadcast_to(normal(4), (1, 1, 12, 4)).copy()
    positions = np.arange(12)[None]
    for interleaved in (0, 1):
        y = call("RotaryEmbedding", [q, cos, sin, positions], opset=23, interleaved=interleaved)[0, 0]
        products = y @ y.T
        for distance in range(12):
            line = np.diagonal(products, distance)
            np.testing.assert_allclose(line, line[0], rtol=1e-4, atol=1e-4)
    with pytest.raises(KernelError, match="position_ids"):
        call("RotaryEmbedding", [q, cos, sin, positions + 5], opset=23)


@pytest.mark.parametrize("opset", [1, 6, 7, 10, 12, 13, 22])
def test_dropout_for_inference_is_the_identity(opset: int) -> None:
    x = normal(3, 4)
    output, mask = call("Dropout", [x], opset=opset, outputs=2, **({"is_test": 1} if opset < 7 else {}))
    assert output is x
    if opset >= 7:
        assert mask.all()
        assert mask.dtype == (np.float32 if opset < 10 else np.bool_)


def test_dropout_for_training_drops_its_share_and_scales_the_rest() -> None:
    x = np.ones((200, 200), np.float32)
    for seed in (None, 7):
        inputs = [x, np.array(0.25, np.float32), np.array(True)]
        output, mask = call("Dropout", inputs, opset=13, outputs=2, **({} if seed is None else {"seed": seed}))
        assert abs(mask.mean() - 0.75) < 0.02
        np.testing.assert_allclose(output, mask / 0.75, rtol=1e-6)
        again, _ = call("Dropout", inputs, opset=13, outputs=2, **({} if seed is None else {"seed": seed}))
        np.testing.assert_array_equal(again, output)
    old, _ = call("Dropout", [x], opset=6, outputs=2)
    assert set(np.unique(old).tolist()) == {0, 2}
    with pytest.raises(KernelError, match="ratio"):
        call("Dropout", [x, np.array(1.0, np.float32), np.array(True)], opset=13)


@pytest.mark.parametrize(("axis", "shape"), [(0, (1, 24)), (1, (2, 12)), (3, (24, 1)), (-1, (6, 4)), (-3, (1, 24))])
def test_flatten(axis: int, shape: tuple[int, int]) -> None:
    assert call("Flatten", [normal(2, 3, 4)], opset=11, axis=axis).shape == shape
    with pytest.raises(KernelError, match="axis"):
        call("Flatten", [normal(2, 3, 4)], opset=11, axis=4)


def test_flatten_of_nothing_keeps_what_is_left() -> None:
    assert call("Flatten", [np.zeros((0, 3, 4))], opset=13, axis=2).shape == (0, 4)


def test_tf_idf_counts_weighs_and_cuts() -> None:
    attributes: dict[str, Any] = {
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 1,
        "ngram_counts": (0, 2),
        "ngram_indexes": (1, 0, 2),
        "pool_strings": ("a", "b", "a", "b"),
        "weights": (2.0, 3.0, 5.0),
    }
    x = np.array([["a", "b", "a", "b"], ["c", "a", "c", "b"]], object)
    counts = call("TfIdfVectorizer", [x], opset=9, mode="TF", **attributes)
    assert counts.tolist() == [[2, 2, 2], [1, 1, 1]]
    assert call("TfIdfVectorizer", [x], opset=9, mode="IDF", **attributes).tolist() == [[3, 2, 5], [3, 2, 5]]
    assert call("TfIdfVectorizer", [x[0]], opset=9, mode="TFIDF", **attributes).tolist() == [6, 4, 10]
    with pytest.raises(KernelError, match="exactly one"):
        call("TfIdfVectorizer", [x], opset=9, mode="TF", **{**attributes, "pool_int64s": (1,)})
    with pytest.raises(KernelError, match="ngram_counts"):
        call("TfIdfVectorizer", [x], opset=9, mode="TF", **{**attributes, "ngram_counts": (0, 99)})


def test_col2im_refuses_what_does_not_fit_and_giants() -> None:
    with pytest.raises(KernelError, match="expected"):
        call("Col2Im", [normal(1, 5, 5), np.array([5, 5]), np.array([1, 5])], opset=18, strides=(2, 2))
    set_limits(Limits(max_bytes=1 << 28))
    try:
        with pytest.raises((LimitError, KernelError)):
            call("Col2Im", [normal(1, 5, 5), np.array([1 << 30, 1 << 30]), np.array([1, 5])], opset=18)
    finally:
        set_limits(None)


def test_infinities_beside_the_taps_of_deform_conv_play_no_part() -> None:
    x = np.array([[[[-np.inf, 1, 2], [3, 4, 5], [6, 7, np.inf]]]], np.float32)
    result = call("DeformConv", [x, np.ones((1, 1, 1, 1), np.float32), np.zeros((1, 2, 3, 3), np.float32)], opset=19)
    np.testing.assert_array_equal(result, x)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_deform_conv_without_offsets_is_conv(rank: int) -> None:
    x, w, b = normal(2, 4, *[5] * rank), normal(6, 2, *[3] * rank), normal(6)
    attributes = {"group": 2, "pads": (1,) * (2 * rank), "strides": (2,) * rank}
    plain = call("Conv", [x, w, b], opset=13, **attributes)
    offset = np.zeros((2, 2 * 3**rank * rank, *plain.shape[2:]), np.float32)
    mask = np.ones((2, 2 * 3**rank, *plain.shape[2:]), np.float32)
    result = call("DeformConv", [x, w, offset, b, mask], opset=19, offset_group=2, **attributes)
    np.testing.assert_allclose(result, plain, rtol=1e-4, atol=1e-4)
    moved = call("DeformConv", [x, w, offset + 1, b], opset=19, offset_group=2, **attributes)
    shifted = np.zeros_like(x)
    inner = (slice(None), slice(None), *[slice(0, -1)] * rank)
    shifted[inner] = x[(slice(None), slice(None), *[slice(1, None)] * rank)]
    core = (slice(None), slice(None), *[slice(1, -1)] * rank)
    np.testing.assert_allclose(
        moved[core], call("Conv", [shifted, w, b], opset=13, **attributes)[core], rtol=1e-4, atol=1e-4
    )


def test_shrink_with_negative_lambd_adds_the_bias_in_the_overlap() -> None:
    x = np.array([-2, 0, 2], np.float32)
    result = call("Shrink", [x], opset=9, lambd=-1.0, bias=0.5)
    np.testing.assert_array_equal(result, [-1.5, 0.5, 1.5])
    np.testing.assert_array_equal(call("Shrink", [np.zeros(1, np.uint8)], opset=9, lambd=-1.0, bias=1.0), [1])


@pytest.mark.parametrize("which", [1, 2])
def test_a_key_that_no_query_sees_is_added_as_minus_infinity(which: int) -> None:
    """Its function body adds masks to the scores, so that NaN stays NaN."""
    inputs = [np.ones((1, 1, 3, 2), np.float32) for _ in range(3)]
    inputs[which][0, 0, 2] = np.nan
    for attributes in ({"is_causal": 1}, {"left_window_size": 1, "right_window_size": 0}):
        result = call("Attention", inputs, opset=25, **attributes)
        assert np.isnan(result[0] if isinstance(result, tuple) else result).all()
