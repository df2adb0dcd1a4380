"""Models that ONNX Runtime saved after it had put channels into blocks run as they did before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels import load as load_kernels
from onnx_workbench.exec.kernels.microsoft import blocked
from onnx_workbench.exec.session import Session
from onnx_workbench.model.io.reader.read import load
from tests.exec.kernels.harness import call

load_kernels()

WEIGHTS = {
    "w1": (32, 3, 3, 3), "b1": (32,), "w2": (24, 32, 3, 3), "w3": (24, 32, 1, 1), "w4": (24, 1, 3, 3),
    "w5": (40, 24, 1, 1), "w6": (32, 16, 3, 3), "w7": (16, 40, 3, 3), "b7": (16,),
}  # fmt: skip
TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3,20,20] x) => (float[2,32,10,10] grouped, float[2,40,1,1] mean, float[2,16,1,1] most, float[2,24,20,20] up)
{
    a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w1, b1)
    r = Relu (a)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
    c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (p, w2)
    s = Conv <kernel_shape = [1, 1]> (p, w3)
    t = Add (c, s)
    d = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = 24> (t, w4)
    u = Clip (d, low, high)
    up = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (u, , scales)
    q = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1> (u)
    e = Conv <kernel_shape = [1, 1]> (q, w5)
    mean = GlobalAveragePool (e)
    f = Conv <kernel_shape = [3, 3], strides = [2, 2]> (e, w7, b7)
    h = Sigmoid (f)
    most = GlobalMaxPool (h)
    grouped = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = 2> (p, w6)
}"""


def model() -> onnx.ModelProto:
    random = np.random.default_rng(0)
    parsed = parser.parse_model(TEXT)
    arrays: dict[str, Any] = {n: random.standard_normal(s).astype(np.float32) / 4 for n, s in WEIGHTS.items()}
    arrays |= {"low": np.float32(0), "high": np.float32(6), "scales": np.array([1, 1, 2, 2], np.float32)}
    parsed.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items())
    return parsed


def test_a_saved_model_computes_what_it_computed(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    options.log_severity_level = 3
    x = np.random.default_rng(1).standard_normal((2, 3, 20, 20)).astype(np.float32)
    session = ort.InferenceSession(model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x})
    found = Session(load(tmp_path / "saved.onnx")).run({"x": x}).raise_for_failure()
    for output, reference in zip(session.get_outputs(), expected, strict=True):
        np.testing.assert_allclose(found.values[output.name], reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("inputs", [1, 3, 16, 32])
def test_weights_come_out_of_blocks_of_either_size(size: int, inputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "block_size", lambda: size)
    plain = np.random.default_rng(2).standard_normal((48, inputs, 2, 3)).astype(np.float32)
    lying = np.empty(plain.size, np.float32)
    for place, (o, i, y, x) in enumerate(np.ndindex(*plain.shape)):
        within = o % size if inputs < size else (i % size) * size + o % size
        across = (o // size, i, y, x) if inputs < size else (o // size, i // size, y, x)
        counts = (48 // size, inputs if inputs < size else inputs // size, 2, 3)
        block = size if inputs < size else size * size
        lying[int(np.ravel_multi_index(across, counts)) * block + within] = plain.reshape(-1)[place]
    np.testing.assert_array_equal(blocked._unblocked(lying.reshape(plain.shape)), plain)


def test_copies_between_memories_change_nothing() -> None:
    x = np.arange(3)
    for op_type in ("MemcpyToHost", "MemcpyFromHost"):
        np.testing.assert_array_equal(call(op_type, [x], opset=17), x)


def test_channels_are_filled_up_and_cut_off() -> None:
    x = np.random.default_rng(3).standard_normal((2, 4, 5, 20)).astype(np.float32)
    filled = call("ReorderInput", [x], opset=1, domain=blocked.NCHWC, channels_last=1)
    assert filled.shape[1] % blocked.block_size() == 0
    back = call("ReorderOutput", [filled], opset=1, domain=blocked.NCHWC, channels=20, channels_last=1)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("Conv", [np.ones((1, 3, 4, 4), np.float32), np.ones((5, 3, 1, 1), np.float32)], {}),
        ("Conv", [np.ones((1, 20, 4, 4), np.float32), np.ones((16, 20, 1, 1), np.float32)], {}),
        ("ReorderInput", [np.ones(3, np.float32)], {}),
        ("ReorderOutput", [np.ones((1, 8, 2), np.float32)], {"channels": 9}),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    with pytest.raises(KernelError):
        call(op_type, inputs, opset=1, domain=blocked.NCHWC, **attributes)
