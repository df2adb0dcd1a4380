"""Where onnx's inference is wrong in some versions, or crashes."""

import pytest

from onnx_workbench.model.inference import infer
from tests.model import builders

SLICE = "(float[M, 6] x) => (float[a, b] y) <int64[1] st = {0}, int64[1] en = {1}> { y = Slice (x, st, en) }"
SQUEEZE = "(float[1, 3, 1, 4] x) => (float[a, b] y) { y = Squeeze <axes = [2, 0]> (x) }"
POOL = "(float[1, 3, 4] x) => (float[a, b, c] y) {{ y = {} <ceil_mode = 1, kernel_shape = [1], strides = [2]> (x) }}"
ONE_HOT = (
    "(float[1] x) => (float[a, b] y) <int64[2] i = {1, -1}, int64 n = {4}, float[2] v = {0, 1}> "
    "{ y = OneHot (i, n, v) }"
)
STFT = "(float[1, 8, 1] x) => (float[a, b, c, d] y) <int64 s = {2}, int64 n = {4}> { y = STFT (x, s, , n) }"

CASES = [
    (SLICE, 10, lambda dims: dims[0] != "M"),
    (SQUEEZE, 1, lambda dims: dims == (3, 4)),
    (SQUEEZE, 10, lambda dims: dims == (3, 4)),
    *((POOL.format(name), opset, lambda dims: dims == (1, 3, 2))
      for name in ("AveragePool", "MaxPool") for opset in (10, 13, 21)),
    (STFT, 17, lambda dims: dims == (1, 3, 3, 2)),
    (ONE_HOT, 9, lambda dims: dims == (2, 4)),
    (ONE_HOT, 10, lambda dims: dims == (2, 4)),
    (POOL.format("LpPool"), 18, lambda dims: dims == (1, 3, 2)),
]  # fmt: skip


def text(body: str, opset: int) -> str:
    return f'<ir_version: 5, opset_import: ["" : {opset}]> g {body}'


@pytest.mark.parametrize(("body", "opset", "is_right"), CASES)
def test_what_onnx_infers_wrongly_is_right(body, opset, is_right):
    model = builders.model(text(body, opset))
    found = infer(model)
    assert is_right(found.types[builders.value(model, "y")].shape.dims)


@pytest.mark.parametrize(
    ("domain", "operator"),
    [("", "EyeLike"), ("", "RegexFullMatch"), ("ai.onnx.ml", "DictVectorizer"), ("ai.onnx.ml", "LabelEncoder")],
)
def test_inputs_of_unknown_types_crash_nothing(domain, operator):
    """onnx's inference dereferences the type of the first input without looking."""
    model = builders.model(f"""<ir_version: 8, opset_import: ["" : 20, "ai.onnx.ml" : 1, "custom" : 1]>
        g (float[2] x) => (float[2] z) {{
            u = custom.Strange (x) y = {domain + "." if domain else ""}{operator} <dtype = 1, pattern = "a"> (u)
            z = Relu (x) s = Shape (z) }}""")
    found = infer(model)
    assert str(found.types[builders.value(model, "s")]) == "int64[1]"
