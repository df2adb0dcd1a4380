"""Hashes of n-grams, products that share an input, sequences one after the other, and masks of bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels import load
from tests.exec.kernels.harness import assert_same, call
from tests.exec.kernels.test_microsoft import MS, f, label, onnxruntime, ours

load()

RNG = np.random.default_rng(11)
I32, I64 = 6, 7
HASH = {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 0}
EOS = 4


def ids(*shape: int, dtype: Any = np.int64) -> Any:
    return RNG.integers(0, 9, shape).astype(dtype)


def weights(dtype: Any = np.int64) -> list[Any]:
    """Multipliers, which make products wrap around in 64 bits too, and sizes."""
    most = np.iinfo(dtype).max
    return [RNG.integers(most // 4, most, 3).astype(dtype) | 1, np.array([101, 103, 107, 109], dtype)]


def scalar(value: int, dtype: Any = np.int64) -> Any:
    return np.array(value, dtype)


SEGMENTS = np.array([[0, 0, 1, 1, 1, 2, 2], [5, 5, 5, 5, 5, 5, 1]], np.int32)
CASES: list[tuple[str, list[Any], list[int], dict[str, Any]]] = [
    ("NGramHashMapping", [ids(2, 7), *weights()], [I64, I64], HASH),
    ("NGramHashMapping", [ids(2, 1, dtype=np.int32), *weights(np.int32), ids(2, 2, dtype=np.int32)], [I32, I32], HASH),
    ("NGramHashMapping", [ids(2, 7), *weights(), ids(2, 2), ids(4) * 1000], [I64, I64], HASH | {"pad_id": 7}),
    ("NGramHashMapping", [ids(3, 40), *weights(), None, None, scalar(EOS)], [I64, I64], HASH | {"reset_on_eos": 1}),
    ("NGramHashMapping", [ids(3, 40), *weights(), ids(3, 2), None, scalar(EOS)], [I64, I64], HASH),
    ("NGramHashMapping", [ids(2, 7), *weights(), ids(2, 2), None, scalar(EOS), SEGMENTS], [I64, I64],
     HASH | {"reset_on_eos": 1}),
    ("NGramHashMapping", [ids(2, 7), *weights(), ids(2, 2), None, None, SEGMENTS], [I64, I64], HASH),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "inputs", "types", "attributes"), CASES, ids=label)
def test_agrees_with_onnxruntime(op_type: str, inputs: list[Any], types: list[int], attributes: Any) -> None:
    expected = onnxruntime(op_type, inputs, types, MS, attributes)
    found = ours(op_type, inputs, len(types), **attributes)
    for value, reference in zip(found, expected, strict=True):
        assert_same(value, reference)


@pytest.mark.parametrize("reset", [0, 1])
def test_sequences_one_after_the_other_hash_as_each_alone(reset: int) -> None:
    tokens, (multipliers, sizes), past = ids(12), weights(), ids(3, 2)
    segments = np.repeat(np.array([3, 3, 4, 4, 4, 7], np.int32), 2)
    said: dict[str, Any] = HASH | {"reset_on_eos": reset}
    inputs = [tokens, multipliers, sizes, np.array([0, 3, 8, 12], np.int32), past, None, scalar(EOS), segments]
    hashes, present, _, _ = ours("VarlenNGramHashMapping", inputs, 4, **said)
    for entry, (start, end) in enumerate([(0, 3), (3, 8), (8, 12)]):
        alone = [tokens[None, start:end], multipliers, sizes, past[entry : entry + 1], None, scalar(EOS)]
        one, after = ours("NGramHashMapping", [*alone, segments[None, start:end]], 2, **said)
        np.testing.assert_array_equal(hashes[start:end], one[0])
        np.testing.assert_array_equal(present[entry], after[0])


def test_a_sequence_in_two_calls_hashes_as_in_one() -> None:
    tokens, (multipliers, sizes) = ids(12), weights()
    segments = np.array([1] * 5 + [2] * 7, np.int32)

    def call(start: int, end: int, *before: Any, **more: int) -> Any:
        past, marks = before or (None, None)
        count = np.array([3], np.int32) if more else None
        lengths = np.array([0, end - start], np.int32)
        inputs = [tokens[start:end], multipliers, sizes, lengths, past, None, None, segments[start:end], marks, count]
        return ours("VarlenNGramHashMapping", inputs, 4, **HASH, **more)

    whole = call(0, 12)[0]
    for cut in (1, 4, 5, 6, 11):
        first, past, marks, states = call(0, cut, state_update_capacity=2)
        np.testing.assert_array_equal(np.concatenate([first, call(cut, 12, past, marks)[0]]), whole)
        for place in range(min(2, cut)):
            np.testing.assert_array_equal(states[0, place], call(0, place + 1)[1][0])


def test_convolving_piece_by_piece_equals_each_sequence_alone() -> None:
    x, weight, bias, state = f(9, 4), f(4, 1, 3), f(4), f(2, 4, 4)
    lengths = np.array([0, 2, 9], np.int32)
    more: dict[str, Any] = {"activation": "silu", "dilation": 2}
    inputs = [x, weight, lengths, bias, state, np.array([5, 1], np.int32)]
    y, after, updates = ours("VarlenCausalConvWithState", inputs, 3, state_update_capacity=3, **more)
    for entry, (start, end) in enumerate([(0, 2), (2, 9)]):
        one, kept = ours(
            "CausalConvWithState", [x[None, start:end].swapaxes(1, 2), weight, bias, state[[entry]]], 2, **more
        )
        assert_same(y[start:end], one[0].T)
        assert_same(after[entry], kept[0])
    assert_same(updates, np.stack([np.concatenate([x[:2], 0 * x[:1]]), np.concatenate([x[2:3], 0 * x[:2]])]))


def nbits(n: int, k: int, size: int = 16) -> tuple[Any, Any]:
    """A matrix of 4 bits and its scales."""
    blocks = k // size
    return RNG.integers(0, 256, (n, blocks, size // 2), np.uint8), np.abs(f(n, blocks)) + np.float32(0.1)


@pytest.mark.parametrize(("normed", "skip"), [(False, False), (True, False), (True, True)])
def test_fused_products_are_those_of_the_normalized_input(normed: bool, skip: bool) -> None:
    x, added, scale = f(2, 3, 32), f(2, 3, 32), f(32)
    up, gate, values = nbits(8, 32), nbits(8, 32), nbits(4, 32)
    bias = f(8)
    more: dict[str, Any] = {"K": 32, "block_size": 16, "epsilon": 0.01}

    def product(matrix: tuple[Any, Any], n: int, bias: Any = None) -> Any:
        said = {"K": 32, "N": n, "block_size": 16}
        return ours("MatMulNBits", [a, *matrix, None, None, bias], 1, **said)[0]

    a = x + added if skip else x
    total = a
    if normed:
        a = a / np.sqrt(np.square(a).mean(-1, keepdims=True) + np.float32(0.01)) * scale
    given = [x, added if skip else None, scale if normed else None]
    y, summed = ours("MatMulNBitsMlp", [*given, *gate, bias, *up, None], 2, N=8, activation="silu", **more)
    gated = product(gate, 8, bias)
    with np.errstate(over="ignore"):
        assert_same(y, gated / (1 + np.exp(-gated)) * product(up, 8), rtol=1e-4, atol=1e-4)
    if normed:
        q, k, v, also = ours("MatMulNBitsQkv", [*given, *up, bias, *values, None, *values], 4, Nq=8, Nkv=4, **more)
        assert_same(q, product(up, 8, bias), rtol=1e-4, atol=1e-4)
        assert_same(k, product(values, 4), rtol=1e-4, atol=1e-4)
        assert_same(v, k)
        for one in (summed, also):
            assert_same(one, total) if skip else np.testing.assert_equal(one, None)


def test_masks_of_bits_show_what_was_kept() -> None:
    x = np.abs(f(5, 9)) + 1
    training = [np.array(0.4, np.float32), np.array(True)]
    y, bits = call("BitmaskDropout", [x, *training], opset=1, domain=MS, seed=3)
    kept = np.unpackbits(bits.view(np.uint8), bitorder="little")[: x.size].astype(bool).reshape(x.shape)
    assert bits.dtype == np.uint32
    assert bits.shape == (2,)
    np.testing.assert_array_equal(y != 0, kept)
    assert 0 < kept.sum() < x.size
    same = call("BitmaskBiasDropout", [x, f(9) * 0, x, *training], opset=1, domain=MS, seed=3)
    assert_same(same[0], y + x)
    np.testing.assert_array_equal(same[1], bits)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("NGramHashMapping", [ids(2, 7), *weights()], HASH | {"max_ngram_size": 1}),
        ("NGramHashMapping", [ids(2, 7), *weights()], HASH | {"n_head_per_ngram": 3}),
        ("NGramHashMapping", [ids(2, 7), weights()[0], np.array([5, 0, 5, 5])], HASH),
        ("NGramHashMapping", [ids(2, 7), *weights(), ids(2, 3)], HASH),
        ("NGramHashMapping", [ids(7), *weights()], HASH),
        ("VarlenNGramHashMapping", [ids(7), *weights(), np.array([0, 0, 7])], HASH),
        ("VarlenNGramHashMapping", [ids(7), *weights(), np.array([0, 7])], HASH | {"state_update_capacity": 2}),
        ("VarlenCausalConvWithState", [f(7, 4), f(4, 1, 3), np.array([0, 9]), None, f(1, 4, 2)], {}),
        ("MatMulNBitsMlp", [f(2, 32), f(2, 32), None, *nbits(8, 32), None, *nbits(8, 32)],
         {"K": 32, "N": 8, "block_size": 16, "activation": "silu"}),
    ],
    ids=label,
)  # fmt: skip
def test_what_does_not_fit_is_refused(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    with pytest.raises(KernelError):
        ours(op_type, inputs, 0, **attributes)
