"""What the specification excludes and ONNX Runtime computes: inferred as it is computed, and a warning."""

import pytest

from onnx_workbench.model.checks.inferred import check_inferred
from onnx_workbench.model.inference import infer
from tests.model import builders

FRAMES = "<int64 step = {2}, int64 length = {4}> { y = STFT (x, step, , length) }"
POOL = "(float[1, 1, 4] x) => (float[a, b, c] y) {{ y = {} <kernel_shape = [5], strides = [{}]> (x) }}"
CASES = {
    "STFT": (f"(float[1, 8] x) => (float[a, b, c, d] y) {FRAMES}", 17, (1, 3, 3, 2)),
    "PRelu rank": ("(float[2] x, float[3, 2] s) => (float[a, b] y) { y = PRelu (x, s) }", 16, (3, 2)),
    "PRelu size": ("(float[N, 1] x, float[3] s) => (float[a, b] y) { t = PRelu (x, s) y = Relu (t) }", 9, ("N", 3)),
    "MeanVarianceNormalization": ("(float[2, N, 2] x) => (float[a, b, c] y) { y = MeanVarianceNormalization (x) }", 13,
                                  (2, "N", 2)),
    "Compress": ("(float[2, 3] x, bool[4] c) => (float[a, b] y) { y = Compress <axis = 0> (x, c) }", 13, (None, 3)),
    "Concat": ("(float[N, 3] x, float[0, 5] z) => (float[a, b] y) { y = Concat <axis = 0> (z, x) }", 13, ("N", 3)),
    **{
        f"{name} {stride}": (POOL.format(name, stride), 14, (1, 1, count))
        for name in ("AveragePool", "MaxPool", "LpPool") for stride, count in ((1, 0), (2, 1))
    },
}  # fmt: skip
FINE = {
    "STFT": (f"(float[1, 8, 1] x) => (float[a, b, c, d] y) {FRAMES}", 17, (1, 3, 3, 2)),
    "PRelu": ("(float[N, C, 4] x) => (float[a, b, c] y) <float[3, 1] s = {1, 2, 3, 4, 5, 6}> { y = PRelu (x, s) }", 16,
              ("N", 3, 4)),
    "MeanVarianceNormalization": (
        "(float[1, 2, 3, 4] x) => (float[a, b, c, d] y) { y = MeanVarianceNormalization (x) }", 13, (1, 2, 3, 4),
    ),
    "Compress": ("(float[2, 3] x, bool[6] c) => (float[a] y) { y = Compress (x, c) }", 13, (None,)),
    "Concat": ("(float[N, 3] x, float[0, 3] z) => (float[a, b] y) { y = Concat <axis = 0> (x, z) }", 13, ("N", 3)),
    "MaxPool": ("(float[1, 1, 4] x) => (float[a, b, c] y) { y = MaxPool <kernel_shape = [5], pads = [1, 0]> (x) }", 14,
                (1, 1, 1)),
}  # fmt: skip


def found(body, opset):
    model = builders.model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {body}')
    result = infer(model)
    return result.types[builders.value(model, "y")].shape.dims, list(check_inferred(result))


@pytest.mark.parametrize(("body", "opset", "dims"), CASES.values(), ids=CASES)
def test_it_is_inferred_as_it_is_computed_with_a_warning(body, opset, dims):
    shape, problems = found(body, opset)
    assert shape == dims
    assert [(p.severity, p.rule) for p in problems] == [("warning", "beyond-specification")]


@pytest.mark.parametrize(("body", "opset", "dims"), FINE.values(), ids=FINE)
def test_what_is_allowed_has_no_warning(body, opset, dims):
    assert found(body, opset) == (dims, [])


def test_a_slope_inside_a_function_is_reported_with_the_call():
    model = builders.model("""
        <ir_version: 8, opset_import: ["" : 16, "f" : 1]>
        g (float[2] x, float[3, 2] s) => (float[a, b] y) { y = f.P (x, s) }
        <domain: "f", opset_import: ["" : 16]> P (x, s) => (y) { y = PRelu (x, s) }
    """)
    result = infer(model)
    assert result.types[builders.value(model, "y")].shape.dims == (3, 2)
    (problem,) = check_inferred(result)
    assert problem.rule == "beyond-specification"
    assert "in the call" in problem.message
