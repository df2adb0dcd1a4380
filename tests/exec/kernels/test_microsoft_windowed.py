"""Attention to neighbours and to caches in blocks, token by token and against each sequence alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.exec.kernels.harness import assert_same
from tests.exec.kernels.test_microsoft import f, i32, ours


@pytest.mark.parametrize("window", [1, 3, 9])
def test_tokens_attend_to_their_neighbours_and_the_global_ones(window: int) -> None:
    x, weight, bias, own_weight, own_bias = f(2, 7, 8), f(8, 24), f(24), f(8, 24), f(24)
    chosen = np.zeros((2, 7), np.int32)
    chosen[0, [0, 4]] = 1
    mask = np.zeros((2, 7), np.float32)
    mask[1, 5:] = -10000
    inputs = [x, weight, bias, mask, own_weight, own_bias, chosen]
    found = ours("LongformerAttention", inputs, num_heads=2, window=window)[0]

    def heads(w: Any, b: Any) -> Any:
        return [p.reshape(2, 7, 2, 4).transpose(0, 2, 1, 3) for p in np.split(x @ w + b, 3, 2)]

    near, far = heads(weight, bias), heads(own_weight, own_bias)
    for entry, head, place in np.ndindex(2, 2, 7):
        q, k, v = far if chosen[entry, place] else near
        seen = [j for j in range(7) if chosen[entry, place] or chosen[entry, j] or abs(place - j) <= window]
        scores = k[entry, head, seen] @ q[entry, head, place] / 2 + mask[entry, seen]
        powers = np.exp(scores - scores.max())
        expected = powers / powers.sum() @ v[entry, head, seen]
        assert_same(found[entry, place, head * 4 : head * 4 + 4], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("more", [{}, {"do_rotary": 1}, {"local_window_size": 2}, {"softcap": 3.0}], ids=str)
def test_a_cache_in_blocks_is_that_of_each_sequence_alone(more: dict[str, Any]) -> None:
    lengths, past = [3, 1], [2, 5]
    q, k, v = f(4, 4 * 8), f(4, 2 * 8), f(4, 2 * 8)
    caches = [f(6, 4, 2, 8), f(6, 4, 2, 8)]
    table, turns = np.array([[4, 1], [0, 3]], np.int32), [f(16, 4), f(16, 4)]
    inputs = [q, k, v, *caches, i32(0, 3, 4), i32(*past), table, *turns]
    y, keys, values = ours("PagedAttention", inputs, 3, num_heads=4, kv_num_heads=2, **more)
    untouched = [2, 5]
    assert_same(keys[untouched], caches[0][untouched])
    start = 0
    for entry, (length, before) in enumerate(zip(lengths, past, strict=True)):
        rows = slice(start, start + length)
        olds = [c[table[entry]].reshape(8, 2, 8).swapaxes(0, 1)[None] for c in caches]
        alone = ours(
            "GroupQueryAttention",
            [*(x[None, rows] for x in (q, k, v)), *olds, i32(before + length - 1), i32(before + length), *turns],
            3, num_heads=4, kv_num_heads=2, **more,
        )  # fmt: skip
        assert_same(y[rows], alone[0][0], rtol=1e-4, atol=1e-5)
        for cache, reference in ((keys, alone[1]), (values, alone[2])):
            mine = cache[table[entry]].reshape(8, 2, 8).swapaxes(0, 1)
            assert_same(mine[:, : before + length], reference[0, :, : before + length], rtol=1e-4, atol=1e-5)
        start += length
    nowhere = ours(
        "PagedAttention", [*inputs, np.full(4, -1, np.int32)], 3, num_heads=4, kv_num_heads=2, **more
    )  # fmt: skip
    assert_same(nowhere[1], caches[0])
