"""SparseAttention of com.microsoft: blocks of keys by layouts, caches written in place, sequences of unequal length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnx_workbench.exec.kernels import load
from onnx_workbench.model.ir.types import ElementType
from tests.exec.kernels.harness import assert_same
from tests.exec.kernels.test_microsoft import MS, RNG, F, f, i32, ours
from tests.onnx_runtime import session_or_skip

load()


def sparse_inputs(steps: int, total: int, *lengths: int) -> list[Any]:
    """Inputs of SparseAttention: four heads with two layouts, two heads of keys, blocks of 16 and caches of 64."""
    layout = np.tril(RNG.integers(0, 2, (2, 4, 4))) | np.eye(4, dtype=np.int64)
    rows = np.concatenate([np.zeros((2, 1)), layout.sum(2).cumsum(1)], 1).astype(np.int32)
    columns = np.full((2, rows.max()), -1, np.int32)
    for found, blocks in zip(columns, layout, strict=True):
        used = np.nonzero(blocks)[1]
        found[: len(used)] = used
    batch = len(lengths)
    heads = [f(batch, steps, 64), f(batch, steps, 32), f(batch, steps, 32)]
    return [*heads, f(batch, 2, 64, 16), f(batch, 2, 64, 16), rows, columns, i32(total), i32(*lengths)]


@pytest.mark.parametrize(("steps", "total", "lengths"), [(40, 40, (40, 40)), (1, 50, (50, 50))])
@pytest.mark.parametrize("rotary", [False, True])
def test_sparse_attention_agrees_with_onnxruntime(
    steps: int, total: int, lengths: tuple[int, ...], rotary: bool
) -> None:
    inputs = sparse_inputs(steps, total, *lengths)
    attributes = {"num_heads": 4, "kv_num_heads": 2, "sparse_block_size": 16, "do_rotary": int(rotary)}
    if rotary:
        inputs += [f(64, 8), f(64, 8)]
    found = ours("SparseAttention", inputs, 3, **attributes)
    for value, reference in zip(found, sharing_buffers(inputs, attributes), strict=True):
        assert_same(value, reference, rtol=1e-4, atol=1e-5)


def sharing_buffers(inputs: list[Any], attributes: dict[str, Any]) -> list[Any]:
    """What ONNX Runtime gives when the caches of SparseAttention are written in place, as it asks for."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node("SparseAttention", names, ["y0", "y1", "y2"], domain=MS, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(n, int(ElementType.from_numpy(v.dtype)), v.shape)
            for n, v in zip(names, inputs, strict=True)
        ],
        [helper.make_tensor_value_info(f"y{i}", F, None) for i in range(3)],
    )
    imports = [helper.make_opsetid(MS, 1), helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    session = session_or_skip(model)
    import onnxruntime

    binding = session.io_binding()
    buffers = [v.copy() for v in inputs]  # the values below only refer to them
    values = {n: onnxruntime.OrtValue.ortvalue_from_numpy(v) for n, v in zip(names, buffers, strict=True)}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y0")
    binding.bind_ortvalue_output("y1", values["x3"])
    binding.bind_ortvalue_output("y2", values["x4"])
    session.run_with_iobinding(binding)
    return [v.numpy().copy() for v in binding.get_outputs()]


@pytest.mark.parametrize(("steps", "total", "lengths"), [(1, 50, (50, 33)), (40, 40, (40, 30))])
@pytest.mark.parametrize("rotary", [False, True])
def test_a_shorter_sequence_is_attended_to_as_if_it_were_alone(
    steps: int, total: int, lengths: tuple[int, ...], rotary: bool
) -> None:
    # ONNX Runtime is no oracle: the shorter sequence of a batch reads memory that was never set, anew in each run.
    inputs = sparse_inputs(steps, total, *lengths)
    attributes = {"num_heads": 4, "kv_num_heads": 2, "sparse_block_size": 16, "do_rotary": int(rotary)}
    turns = [f(64, 8), f(64, 8)] if rotary else []
    together = ours("SparseAttention", [*inputs, *turns], 3, **attributes)
    for entry, length in enumerate(lengths):
        now = min(steps, length)
        tokens = [x[entry : entry + 1, :now] for x in inputs[:3]]
        caches = [x[entry : entry + 1] for x in inputs[3:5]]
        alone = [*tokens, *caches, *inputs[5:7], i32(length), i32(length), *turns]
        y, *kept = ours("SparseAttention", alone, 3, **attributes)
        assert_same(together[0][entry, :now], y[0], rtol=1e-4, atol=1e-5)
        for cache, expected in zip(together[1:], kept, strict=True):
            assert_same(cache[entry, :, :length], expected[0, :, :length])


def test_a_block_that_no_layout_names_is_not_seen() -> None:
    inputs = sparse_inputs(1, 40, 40)
    inputs[5], inputs[6] = np.array([[0, 1, 2, 4, 4]], np.int32), np.array([[0, 1, 0, 2]], np.int32)
    attributes = {"num_heads": 4, "kv_num_heads": 2, "sparse_block_size": 16}
    expected = ours("SparseAttention", inputs, **attributes)[0]
    inputs[3] = inputs[3].copy()
    inputs[3][:, :, 16:32] = 100.0  # the block of keys that the third block of queries does not name
    assert_same(ours("SparseAttention", inputs, **attributes)[0], expected)
    inputs[3][:, :, 3] = 100.0
    assert not np.allclose(ours("SparseAttention", inputs, **attributes)[0], expected)
