"""Converted to other operator sets a model computes the same; what cannot be done is named and changes nothing."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnx_workbench.model.convert import convert_opset
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.types import ElementType
from tests.model import builders
from tests.model.convert.conversions import fed, made, outputs, to_opset
from tests.model.snapshots import assert_linked, snapshot

GROUPS = "g (float[2,4,3] x, float[4] s, float[4] b) => (float[2,4,3] y)"
UP = [
    (1, 2, "g (float[1,2,4,4] x) => (y) { a = LpPool<p=3.0,kernel_shape=[2,2]>(x) y = GlobalLpPool<p=1.0>(a) }"),
    (12, 13, "g (float[2,3,4] x) => (y) { y = Softmax(x) }"),
    (11, 13, "g (float[2,3,4] x) => (y) { y = LogSoftmax<axis=2>(x) }"),
    (12, 18, "g (float[2,3,4] x) => (y) { y = ReduceMean<axes=[1],keepdims=0>(x) }"),
    (12, 13, "g (float[2,3,4] x) => (y) { y = ReduceSum<axes=[-1]>(x) }"),
    (12, 21, "g (float[2,3,4] x) => (y) { a = Unsqueeze<axes=[0,2]>(x) y = Squeeze<axes=[0]>(a) }"),
    (11, 18, "g (float[2,6] x) => (y, z) { y, z = Split<axis=1,split=[2,4]>(x) }"),
    (11, 18, "g (float[2,6] x) => (y, z) { y, z = Split<axis=1>(x) }"),
    (6, 13, "g (float[2,6] x) => (y) { y = Clip<min=-0.5,max=0.25>(x) }"),
    (10, 21, "g (float[2,6] x) => (y) { y = Pad<pads=[0,1,0,2],value=1.5>(x) }"),
    (10, 18, 'g (float[2,6] x) => (y) { y = Pad<pads=[0,1,0,2],mode="reflect">(x) }'),
    (9, 13, "g (float[4,6] x) => (y) { y = Slice<starts=[1,0],ends=[3,-2],axes=[0,1]>(x) }"),
    (9, 13, "g (float[4,6] x) => (y, i) { y, i = TopK<axis=1,k=2>(x) }"),
    (9, 13, "g (float[4,6] x) => (y) { y = Dropout<ratio=0.4>(x) }"),
    (9, 13, "g (float[4,6] x) => (y, m) { y, m = Dropout(x) }"),
    (9, 13, "g (float[4,6] x) => (y) <float[4,6] m> { y, m = Dropout(x) }"),
    (8, 13, 'g (float[1,2,3,3] x) => (y) { y = Upsample<mode="nearest",scales=[1.0,1.0,2.0,3.0]>(x) }'),
    (7, 13, 'g (float[1,2,3,3] x) => (y) { y = Upsample<mode="linear",scales=[1.0,1.0,2.0,2.0]>(x) }'),
    (10, 19, "g (float[1,1,4,4] x) => (y) <float[4] s = {1.0,1.0,1.5,2.0}> { y = Resize(x, s) }"),
    (6, 13, "g (float[2,3,4] x, float[3] b) => (y) { y = Add<broadcast=1,axis=1>(x, b) }"),
    (6, 13, "g (float[2,3,4] x, float[3,4] b) => (y) { y = Mul<broadcast=1>(x, b) }"),
    (6, 13, "g (float[2,3,4,4] x, float[3] s) => (y) { y = PRelu(x, s) }"),
    (8, 15, ("g (float[2,3,4] x, float[3] a, float[3] b, float[3] m) => (y) <float[3] v = {1.0,2.0,3.0}>"
     " { y = BatchNormalization<spatial=1>(x, a, b, m, v) }")),
    (8, 13, "g (float[3,2] x) => (y) { y = Flatten(x) }"),
    (5, 13, "g (float[3,2] x) => (float[3,2] y) { y = Selu<consumed_inputs=[0]>(x) }"),
    (9, 13, "g (float[3,2] x, int64[3,2] i, float[3,2] u) => (y) { z = Sub(i, i) y = Scatter(x, z, u) }"),
    (16, 20, 'g (float[1,1,4,4] x, float[1,2,2,2] g) => (y) { y = GridSample<mode="bilinear">(x, g) }'),
    (10, 16, "g (float[1,1,4,4] x, float[1,4] r) => (y) <int64[1] i = {0}> { y = RoiAlign(x, r, i) }"),
    (18, 21, ("g (float[1,4,3] x) => (float[1,4,3] y) <float[2] s = {1.0,2.0}, float[2] b = {0.5,0.25}>"
     " { y = GroupNormalization<num_groups=2>(x, s, b) }")),
    (18, 21, GROUPS.replace("float[4]", "float[2]") + " { y = GroupNormalization<num_groups=2>(x, s, b) }"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "text"), UP)
def test_newer_operator_sets_compute_the_same(old, new, text):
    document = made(old, text)
    feeds = fed(document.model)
    before, state = outputs(document.model, feeds), snapshot(document.model)
    to_opset(document, new)
    assert_linked(document.model)
    assert document.model.opset_imports[""] == new
    onnx.checker.check_model(to_bytes(document.model))
    after = outputs(document.model, feeds)
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-6, atol=1e-6)
    document.undo()
    assert snapshot(document.model) == state


DOWN = [
    (7, 1, "g (float[2,1,3] x, float[1,6,3] w, float[1,6,2] r) => (y) { y = GRU<hidden_size=2>(x, w, r) }"),
    (2, 1, "g (float[1,2,4,4] x) => (y) { a = LpPool<p=3,kernel_shape=[2,2]>(x) y = GlobalLpPool<p=1>(a) }"),
    (21, 11, "g (float[2,3,4] x) => (y) { y = Softmax<axis=1>(x) }"),
    (18, 11, "g (float[2,3,4] x) => (y) <int64[1] a = {1}> { y = ReduceMax(x, a) }"),
    (13, 11, "g (float[2,1,4] x) => (y) <int64[1] a = {1}> { b = Squeeze(x, a) y = Unsqueeze(b, a) }"),
    (18, 11, "g (float[2,6] x) => (y, z) <int64[2] s = {2,4}> { y, z = Split<axis=1>(x, s) }"),
    (13, 6, "g (float[2,6] x) => (y) <float a = {0.1}> { y = Clip(x, a) }"),
    (18, 10, "g (float[2,6] x) => (y) <int64[4] p = {0,1,0,1}, float v = {2.0}> { y = Pad(x, p, v) }"),
    (13, 9, "g (float[4,6] x) => (y) <int64[1] s = {1}, int64[1] e = {3}, int64[1] a = {1}> { y = Slice(x, s, e, a) }"),
    (13, 9, "g (float[4,6] x) => (y, i) <int64[1] k = {2}> { y, i = TopK(x, k) }"),
    (13, 9, "g (float[4,6] x) => (y) <float r = {0.25}> { y = Dropout(x, r) }"),
    (13, 9, "g (float[4,6] x) => (y, bool[4,6] m) { y, m = Dropout(x) }"),
    (13, 9, "g (float[4,6] x) => (y) <bool[4,6] m> { y, m = Dropout(x) }"),
    (13, 10, "g (float[4,6] x) => (y) { a = Flatten<axis=-1>(x) y = Concat<axis=-1>(a, x) }"),
    (13, 10, "g (float[4,6] x) => (y) { y = ReduceMax<axes=[-1]>(x) }"),
    (13, 10, ("g (int64[2,3] x) => (y) <int64 d = {3}, float[2] v = {0.0,1.0}>"
     " { a = Abs(x) y = OneHot<axis=-1>(a, d, v) }")),
    (13, 10, ("g () => (y) <int64[7] x = {-5,-4,-3,-1,0,2,3}, int64[1] d = {3}, float[2] v = {0.0,1.0}>"
     " { i = Identity(x) y = OneHot(i, d, v) }")),
    (11, 9, ("g () => (y) <float[2,2] x = {-4.0,-1.0,2.0,3.0}, float d = {3.0}, float[2] v = {5.0,1.0}>"
     " { i = Identity(x) y = OneHot<axis=0>(i, d, v) }")),
    (18, 12, "g (float[2,5] x) => (y, z) { y, z = Split<axis=1,num_outputs=2>(x) }"),
    (18, 12, "g (float[2,6] x) => (y, z) { y, z = Split<axis=-1,num_outputs=2>(x) }"),
    (13, 12, "g (float[1,1,4,4] x) => (y) <int64[4] n = {1,1,3,3}> { y = Resize(x, , , n) }"),
    (13, 6, "g (float[2,6] x) => (y) <float k = {1.0}> { a = Sub(k, k) y = Clip(x, a) }"),
    (13, 7, "g (float[2,6] x) => (y) { s = Constant<value=int64[2] {3,4}>() y = Reshape(x, s) }"),
    (13, 9, ("g (float[4,6] x) => (y) <int64[1] z = {1}, int64[1] h = {0}>"
     " { n = Shape(x) e = Slice(n, h, z) b = Sub(e, z) y = Slice(x, h, b, h) }")),
    (10, 9, "g (float[1,1,4,4] x) => (y) <float[4] s = {1.0,1.0,2.0,1.5}> { y = Resize(x, s) }"),
    (10, 6, 'g (float[1,1,4,4] x) => (y) <float[4] s = {1.0,1.0,2.0,1.5}> { y = Resize<mode="linear">(x, s) }'),
    (13, 9, ("g (float[3,2] x, float[3,2] u) => (y) <int64[3,2] i = {0,1,2,0,1,1}>"
     " { y = ScatterElements<axis=0>(x, i, u) }")),
    (7, 6, "g (float[2,3] x, float[3] z, float c) => (y) { a = Add(x, z) y = Mul(a, c) }"),
    (16, 13, ('g (float[1,1,4,4] x, float[1,4] r) => (y) <int64[1] i = {0}>'
     ' { y = RoiAlign<coordinate_transformation_mode="output_half_pixel">(x, r, i) }')),
    (15, 9, ("g (float[2,3,4] x, float[3] a, float[3] b, float[3] m) => (y) <float[3] v = {1.0,2.0,3.0}>"
     " { y = BatchNormalization(x, a, b, m, v) }")),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "text"), DOWN)
def test_older_operator_sets_compute_the_same(old, new, text):
    document = made(old, text)
    feeds = fed(document.model)
    before = outputs(document.model, feeds)
    to_opset(document, new)
    onnx.checker.check_model(to_bytes(document.model))
    after = outputs(document.model, feeds)
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-6, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sizes", [(0, 3, 2, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0), (0, 3, 0, 4), (2, 3, 1, 4)])
@pytest.mark.parametrize("is_static", [True, False])
def test_flattened_softmax_of_any_size_is_the_same(op_type, axis, sizes, is_static):
    dims = ",".join(map(str, sizes)) if is_static else "A,B,C,D"
    document = made(11, f"g (float[{dims}] x) => (y) {{ y = {op_type}<axis={axis}>(x) }}")
    feeds = {"x": np.random.default_rng(0).standard_normal(sizes).astype(np.float32)}
    before = outputs(document.model, feeds)
    to_opset(document, 21)
    onnx.checker.check_model(to_bytes(document.model))
    np.testing.assert_allclose(outputs(document.model, feeds)["y"], before["y"], rtol=1e-6)


@pytest.mark.parametrize(("size", "version", "is_warned"), [("N", 13, True), ("N", 14, False), ("2", 13, False)])
def test_sizes_of_zero_in_what_is_written_out_are_warned_of(size, version, is_warned):
    document = made(17, f"g (float[3,{size},4] x) => (y) <float[4] s = {{1,2,3,4}}> {{ y = LayerNormalization(x, s) }}")
    warnings = to_opset(document, version).warnings
    assert any("LayerNormalization may fail for sizes of 0" in note.text for note in warnings) is is_warned


def test_a_size_of_zero_that_reshape_13_cannot_express_is_warned_of():
    document = made(12, "g (float[N,3,H,4] x) => (y) { y = Softmax<axis=1>(x) }")
    assert any("sizes of 0" in change.text for change in to_opset(document, 13).warnings)
    document = made(12, "g (float[N,3,5,4] x) => (y) { y = Softmax<axis=1>(x) }")
    assert not to_opset(document, 13).warnings


def test_the_scale_of_a_group_is_repeated_for_any_channels():
    text = "g (float[N,C,3] x, float[2] s, float[2] b) => (float[N,C,3] y)"
    document = made(18, text + " { y = GroupNormalization<num_groups=2>(x, s, b) }")
    feeds = {name: np.random.default_rng(0).standard_normal(n).astype(np.float32) for name, n in
             (("x", (2, 6, 3)), ("s", 2), ("b", 2))}  # fmt: skip
    before = outputs(document.model, feeds)
    to_opset(document, 21)
    onnx.checker.check_model(to_bytes(document.model), full_check=True)
    np.testing.assert_allclose(outputs(document.model, feeds)["y"], before["y"], rtol=1e-6)


def test_what_is_written_out_bears_a_size_of_zero():
    document = made(17, "g (float[2,N,5] x, float[5] s) => (float[2,N,5] y) { y = LayerNormalization (x, s) }")
    to_opset(document, 16)
    feeds = {"x": np.zeros((2, 0, 5), np.float32), "s": np.ones(5, np.float32)}
    assert outputs(document.model, feeds)["y"].shape == (2, 0, 5)


QKV = "g (float[1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,4] v) => (float[1,2,3,4] y)"
WRITTEN_OUT = [
    (20, 9, "g (float[2,3] x) => (y) { y = Gelu(x) }"),
    (20, 13, 'g (float[2,3] x) => (y) { y = Gelu<approximate="tanh">(x) }'),
    (20, 11, "g (float[2,3,4] x, float[4] s, float[4] b) => (y, m) { y, m = LayerNormalization(x, s, b) }"),
    (21, 9, "g (float[2,3] x) => (y) { y = HardSwish(x) }"),
    (21, 18, GROUPS + " { y = GroupNormalization<num_groups=2>(x, s, b) }"),
    (24, 13, "g (float[2,3] x) => (y) { y = Swish<alpha=2.0>(x) }"),
    (23, 9, "g (float[2,3] x, float[3] s) => (y) { y = RMSNormalization(x, s) }"),
    (24, 12, "g (float[2,3,4] x, float[3,4] s) => (y) { y = RMSNormalization<axis=1>(x, s) }"),
    (23, 13, QKV + " { y = Attention(q, k, v) }"),
    (23, 17, "g (float[1,2,3,4] x, float[1,3,2] c, float[1,3,2] s) => (y) { y = RotaryEmbedding(x, c, s) }"),
    (16, 11, "g (float[2,3] x, float[2,3] z) => (y) { y = GreaterOrEqual(x, z) }"),
    (18, 17, "g (float[2,3] x) => (y) <int64[2] n = {1,5}> { y = CenterCropPad(x, n) }"),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("old", "new", "text"), WRITTEN_OUT)
def test_operators_that_an_older_set_lacks_are_written_out(old, new, text):
    document = made(old, text)
    feeds = fed(document.model)
    before = outputs(document.model, feeds)
    operators = {node.op_type for node in document.model.graph.nodes}
    report = builders.one_edit(document, convert_opset, new)
    assert_linked(document.model)
    content = to_bytes(document.model)
    onnx.checker.check_model(content)
    after = outputs(load(content), feeds)
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-5, atol=1e-6)
    assert any(f"{name} is decomposed into older operators" in dict(report.summary()) for name in operators)


def test_a_scan_of_one_batch_is_one_of_none():
    body = "b (float[2] a, float[2] n) => (float[2] o, float[2] p) { o = Add(a, n) p = Mul(o, n) }"
    text = "g (float[1,2] s, float[1,3,2] x) => (float[1,2] y, float[1,3,2] z)"
    document = made(8, f"{text} {{ y, z = Scan<num_scan_inputs=1, directions=[1], body={body}>(, s, x) }}")
    to_opset(document, 13)
    content = to_bytes(document.model)
    onnx.checker.check_model(content, full_check=True)
    x = np.arange(6, dtype=np.float32).reshape(1, 3, 2)
    found = outputs(load(content), {"s": np.ones((1, 2), np.float32), "x": x})
    sums = 1 + np.cumsum(x[0, ::-1], axis=0)
    np.testing.assert_allclose(found["y"], sums[-1:])
    np.testing.assert_allclose(found["z"], (sums * x[0, ::-1])[None])


def test_casts_to_a_type_named_by_a_string_declare_it():
    """Before version 6 no schema infers a type from the string, nor does ONNX Runtime."""
    text = "g (float[2,3] x) => (y) <int64 i = {1}> { n = Cast<to=7>(x) y = Gather(n, i) }"
    document = builders.document(f'<ir_version: 3, opset_import: ["": 8]> {text}')
    to_opset(document, 5)
    graph = onnx.shape_inference.infer_shapes(onnx.load_from_string(to_bytes(document.model))).graph
    declared = {value.name: value.type.tensor_type.elem_type for value in graph.value_info}
    assert declared["n"] == ElementType.INT64


def test_what_feeds_an_attribute_of_old_goes():
    document = made(13, "g (float[2,3] x) => (y) { a = Constant<value=int64[1] {1}>() y = ReduceSum(x, a) }")
    to_opset(document, 11)
    assert [node.op_type for node in document.model.graph.nodes] == ["ReduceSum"]


@pytest.mark.parametrize(("start", "end"), [(1, None), (0, 2), (-2, None), (-3, -1)])
def test_a_part_of_a_shape_is_sliced_from_the_whole(start, end):
    attributes = f"start={start}" + (f", end={end}" if end is not None else "")
    document = made(15, f"g (float[2,3,4] x) => (y) {{ y = Shape<{attributes}>(x) }}")
    to_opset(document, 9)
    content = to_bytes(document.model)
    onnx.checker.check_model(content)
    assert outputs(load(content), fed(document.model))["y"].tolist() == [2, 3, 4][start:end]


SCATTER = "g (float[3,2] x, int64[3,2] i, float[3,2] u) => (y)"


@pytest.mark.parametrize(
    ("old", "new", "text", "reason"),
    [
        (14, 13, "g (float[0,2] x) => (y) <int64[2] s = {0,3}> { y = Reshape<allowzero=1>(x, s) }", "empty tensor"),
        (13, 10, "g (float[2] x) => (y) { y = Round(x) }", "Round: no older operators compute the same"),
        (18, 16, SCATTER + ' { y = ScatterElements<reduction="max">(x, i, u) }',
         "its reduction is max; there it can only be none, add or mul"),
        (16, 13, SCATTER + ' { y = ScatterElements<reduction="add">(x, i, u) }',
         "its reduction is add; there it can only be none"),
        (16, 15, 'g (float[4] x, int64[2,1] i, float[2] u) => (y) { y = ScatterND<reduction="mul">(x, i, u) }',
         "its reduction is mul; there it can only be none"),
        (19, 18, 'g (float[4] x) => (y) <int64[2] p = {1,1}> { y = Pad<mode="wrap">(x, p) }',
         "its mode is wrap; there it can only be constant, reflect or edge"),
        (19, 18, ("g (float[1,1,4,4] x) => (y) <float[4] s = {1.0,1.0,2.0,2.0}> "
         '{ y = Resize<mode="linear",coordinate_transformation_mode="half_pixel_symmetric">(x, , s) }'),
         "its coordinate_transformation_mode is half_pixel_symmetric; there it can only be half_pixel, "),
        (9, 8, ("g (float[2] s, float[3,2] x) => (y, z) { y, z = Scan<num_scan_inputs=1, body="
         "b (float[2] a, float[2] n) => (float[2] o, float[2] p) { o = Add(a, n) p = Identity(o) }>(s, x) }"),
         "before version 9 it scans batches of sequences"),
        (16, 13, "g (float[1,1,4,4] x, float[1,4] r, int64[1] i) => (y) { y = RoiAlign(x, r, i) }",
         "it can only be output_half_pixel"),
        (13, 12, ("g (float[2,3] x) => (y) <float[3] s = {1.0,2.0,3.0}, uint8[3] z = {0,0,0}>"
         " { y = QuantizeLinear(x, s, z) }"), "its scale is not known to be a single number"),
        (8, 7, "g (float[2,3] x, float[3] z) => (y) { y = Max(x, z) }", "known to have the same shape"),
        (10, 9, "g (float[1,1,4,4] x) => (y) <float[4] s = {1.0,1.0,0.5,2.0}> { y = Resize(x, s) }", "only enlarge"),
        (11, 10, "g (float[3] x, float[1] u) => (y) <int64[1] i = {-1}> { y = ScatterElements(x, i, u) }",
         "count from the end"),
        (7, 6, "g (float[2,3] x, float[2,1] z) => (y) { y = Add(x, z) }", "did not broadcast before version 7"),
        (9, 8, "g (int64[2] x) => (y) { c = Constant<value=int64 {9223372036854775807}>() y = Add(x, c) }",
         "cannot represent all of these"),
        (8, 9, ("g (float[2,2] s, float[2,3,2] x) => (y, z) { y, z = Scan<num_scan_inputs=1, body="
         "b (float[2] a, float[2] n) => (float[2] o, float[2] p) { o = Add(a, n) p = Identity(o) }>(, s, x) }"),
         "only a batch of one"),
        (13, 12, "g (float[2,3] x, int64[1] a) => (y) { y = Squeeze(x, a) }", "computed while the model runs"),
        (13, 10, "g (float[1,1,4,4] x) => (y) <float[4] s = {1.0,1.0,2.0,2.0}> { y = Resize(x, , s) }", "asymmetric"),
        (8, 13, "g (float[2,3,4] x, float[3,4] b) => (y) { y = BatchNormalization<spatial=0>(x,b,b,b,b) }", "spatial"),
        (13, 9, 'g (float[4,6] x) => (y) <string[1] s = {"a"}, int64[1] e = {2}> { y = Slice(x, s, e) }',
         "Slice cannot be converted"),
        (9, 13, 'g (float[4] x) => (y) { y = Slice <starts = ["1"], ends = [3]> (x) }',
         "its starts is STRINGS; ai.onnx::Slice-1 has INTS"),
        (1, 2, "g (float[1,1,4] x) => (y) { y = GlobalLpPool<p=1.5>(x) }", "exponent 1.5 is not a whole number"),
        (7, 6, "g (float[4] x) => (y, float[4] m) { y, m = Dropout(x) }", "does not exist there"),
        (13, 99, "g (float[2] x) => (y) { y = Relu(x) }", "Versions 1 to"),
        (13, 0, "g (float[2] x) => (y) { y = Relu(x) }", "Versions 1 to"),
    ],
)  # fmt: skip
def test_what_a_version_cannot_say_is_refused_by_name(old, new, text, reason):
    document = made(old, text)
    state = snapshot(document.model)
    with pytest.raises(ModelError, match=reason):
        to_opset(document, new)
    assert snapshot(document.model) == state
    assert not document.modified


def test_what_may_mean_something_else_is_warned_of():
    text = "g (float[2,3] x, int64[2] s) => (float[a,b] y, float[3,2] z) <int64[2] t = {3,2}>"
    document = made(14, text + " { y = Reshape<allowzero=1>(x, s) z = Reshape<allowzero=1>(x, t) }")
    report = to_opset(document, 13)
    assert [remark.place.outputs[0].name for remark in report.warnings] == ["y"]
    assert not any(node.attributes for node in document.model.graph.nodes)


def test_defaults_that_changed_are_said():
    document = made(
        3, "g (float[2,3] a, float[2,3] b) => (y) { y = Concat(a, b) }".replace("Concat(", "Concat<axis=1>(")
    )
    to_opset(document, 13)
    assert document.model.graph.nodes[0].attributes["axis"].value == 1


def test_the_axes_of_mean_variance_normalization_are_written_out():
    """onnx's shape inference refuses a function that leaves them to their default, and ONNX Runtime with it."""
    text = """<ir_version: 8, opset_import: ["" : 11, "local.one" : 1]>
    g (float[2,3,4,4] x) => (float[2,3,4,4] y) { y = local.one.F(x) }
    <domain: "local.one", opset_import: ["" : 11]> F (x) => (y) { y = MeanVarianceNormalization(x) }"""
    document = Document(builders.model(text))
    to_opset(document, 18)
    onnx.checker.check_model(onnx.load_from_string(to_bytes(document.model)), full_check=True)


def test_bodies_and_functions_are_converted_too():
    document = Document(
        builders.model("""<ir_version: 8, opset_import: ["": 12, "l": 1]>
        g (float[2,3] x, bool c) => (float[2,3] y) {
            a = If (c) <then_branch = t () => (o) { o = Softmax(x) }, else_branch = e () => (o) { o = Relu(x) }>
            y = l.f(a) }
        <domain: "l", opset_import: ["": 12]> f (v) => (o) { u = Unsqueeze<axes=[0]>(v) o = Squeeze<axes=[0]>(u) }""")
    )
    feeds = {"x": np.ones((2, 3), np.float32), "c": np.array(True)}
    before = outputs(document.model, feeds)
    to_opset(document, 21)
    assert document.model.functions[0].opset_imports == {"": 21}
    np.testing.assert_allclose(outputs(document.model, feeds)["y"], before["y"], rtol=1e-6)


@pytest.mark.long
def test_real_models_in_a_newer_operator_set(real_models):
    """Every model that runs computes the same in operator set 21, or a named node says why it cannot be said."""
    refused, converted = [], 0
    for path in [p for p in real_models.files() if p.with_name("inputs.npz").exists()][::5]:
        model = load(path.with_name("model.onnx"))
        size = sum(v.initializer.nbytes for v in model.graph.initializers)
        if model.opset_imports.get("", 99) >= 21 or size > 20e6 or len(model.graph.nodes) > 450:
            continue
        with np.load(path.with_name("inputs.npz"), allow_pickle=False) as feeds:
            given = {name: feeds[name] for name in feeds}
        try:
            before = outputs(model, given)
        except (AssertionError, ModelError, ValueError):
            continue
        document = Document(model)
        try:
            to_opset(document, 21)
        except ModelError as error:
            refused.append((path.parent.name, str(error)))
            continue
        after = outputs(document.model, given)
        for name, array in before.items():
            if isinstance(array, np.ndarray) and array.dtype.kind == "f":
                np.testing.assert_allclose(after[name], array, rtol=1e-4, atol=1e-5, err_msg=path.parent.name)
        converted += 1
    assert converted > len(refused), refused


def test_limits_that_become_inputs_are_scalars():
    document = made(6, "g (float[2,6] x) => (y) { y = Clip<min=-0.5>(x) }")
    to_opset(document, 13)
    assert document.model.graph.initializers[0].initializer.shape == ()


def test_a_version_that_changes_no_node_is_reported_all_the_same():
    document = made(20, "g (float[2] x) => (float[2] y) { y = Relu(x) }", 10)
    report = builders.one_edit(document, convert_opset, 21)
    assert report.summary() == [("opset 20 → 21", 1)]


def test_an_operator_expands_without_a_rank_it_does_not_need():
    """CastLike needs no more than the element type of its second input."""
    document = made(
        21, "g (float[2,3] x, int64[K] axes, double[1] like) => (y) { a = ReduceSum(x, axes) y = CastLike(a, like) }"
    )
    feeds = {"x": np.ones((2, 3), np.float32), "axes": np.array([0]), "like": np.ones(1)}
    before = outputs(document.model, feeds)
    builders.one_edit(document, convert_opset, 14)
    assert [node.op_type for node in document.model.graph.nodes] == ["ReduceSum", "Cast"]
    after = outputs(document.model, feeds)["y"]
    assert after.dtype == np.float64
    assert np.array_equal(after, before["y"])
