"""Sizes that are freed: what is declared follows, the result runs at other sizes, and what does not is said."""

import pytest

import onnx_workbench as ow
from tests.model import builders

RNN = """<ir_version: 8, opset_import: ["" : 13]>
g (float[4,1,3] x) => (float[4,1,1,2] y) <float[1,2,3] w = {1,2,3,4,5,6}, float[1,2,2] r = {1,2,3,4}>
{ y = RNN <hidden_size = 2> (x, w, r) }"""
FIXED = """<ir_version: 8, opset_import: ["" : 13]>
g (float[1,4] x, float[1,2,4,4] im) => (float[1,1] s, float[1,2,8,8] up)
<float[1,1] k = {2}, int64[4] sz = {1,2,8,8}>
{ cc = Concat <axis = 1> (x, k) s = ReduceSum (cc) up = Resize <mode = "nearest"> (im, "", "", sz) }"""


@pytest.mark.parametrize(
    ("text", "declared", "warned", "reported"),
    [
        (RNN, {"y": (4, 1, "N", 2)}, [], ["it runs with N = 1; N = 2; N = 3"]),
        (
            FIXED,
            {"s": (1, 1), "up": (1, 2, 8, 8)},
            ["Concat needs N to be 1", "Resize needs N to be 1"],
            ["it runs with N = 1", "it does not run with N = 2", "it does not run with N = 3"],
        ),
    ],
)
def test_freed_sizes(text, declared, warned, reported):
    model = builders.model(text)
    free = ["x:1=N"] if text is RNN else ["N"]
    converted = ow.convert(model, free=free)
    assert {v.name: v.type.shape.dims for v in model.graph.outputs} == declared
    assert [remark.text for report in converted.reports for remark in report.warnings] == warned
    remarks = [remark for remark in converted.agreement.remarks if remark.startswith("it ")]
    assert [remark.partition(" (")[0] for remark in remarks] == reported
