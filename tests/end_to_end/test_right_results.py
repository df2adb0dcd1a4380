"""Models of which a command once wrote a wrong or invalid file, or failed: each computes the same afterwards.

Random models found them. What is written is run at several sizes, checked, and loaded by ONNX Runtime where it is
installed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from onnx_workbench.exec.session import Session
from onnx_workbench.model.checks import check_model
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.viewer.cli.main import main
from tests.onnx_runtime import is_loaded

SLICE_10 = """
<ir_version: 5, opset_import: ["" : 10]>
g (float[M] x) => (float[K] z) <int64[1] st = {0}, int64[1] en = {1}> {
  y = Slice (x, st, en)
  s = Shape (x)
  z = Expand (y, s)
}"""
UNUSED_OUTPUT = """
<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
g (float[N] x) => (float[N] z) { z, t = local.F (x) }
<opset_import: ["" : 17], domain: "local">
F (a) => (b, m) {
  t = Abs (a)
  m = Exp (t)
  b = Neg (t)
}"""
NEGATED_SIZE = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 4] x) => (float[M, 4] y) <int64 i = {0}, int64 two = {2}, int64[1] z = {0}, int64[1] axis = {0}> {
  s = Shape (x)
  n = Gather <axis = 0> (s, i)
  a = Neg (n)
  b = Div (a, two)
  c = Neg (b)
  e = Unsqueeze (c, z)
  y = Slice (x, z, e, axis)
}"""
CONSTANT_NORMALIZATION = """
<ir_version: 8, opset_import: ["" : 17]>
g () => (float[1, 2, 1] y)
<float[1, 2, 1] x = {1.0, 2.0}, float[2] s = {1.0, 1.0}, float[2] b = {0.0, 0.0}, float[2] m = {0.5, 0.5},
 float[2] v = {1.0, 2.0}> {
  y = BatchNormalization (x, s, b, m, v)
}"""
EQUAL_SIZES_OF_TWO_TYPES = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N] x, float[1] k) => (float[1] y) <bool go = {0}> {
  r = If (go) <
    then_branch = t () => (float[1] a) { a = Identity (k) },
    else_branch = e () => (float[1] b) { s = Shape (x) f = Cast <to = 1> (s) b = Ceil (f) }>
  y = Mul (r, k)
}"""
UNSORTED_AXES = """
<ir_version: 4, opset_import: ["" : 10]>
g (float[1, 3, 1, 4] x) => (float[] y) <int64[3] shape = {-1, 3, 4}> {
  a = Squeeze <axes = [2, 0]> (x)
  y = Reshape (a, shape)
}"""
CEIL_MODE = """
<ir_version: 8, opset_import: ["" : 14]>
g (float[1, 3, 4, 4] x) => (float[] y, int64[4] s) {
  y = AveragePool <ceil_mode = 1, kernel_shape = [1, 1], strides = [2, 2]> (x)
  s = Shape (y)
}"""
SHAPE_OF_SCALAR = """
<ir_version: 8, opset_import: ["" : 17]>
g (float x) => (int64[n] y) <int64[1] one = {1}> {
  s = Shape (x)
  y = Sub (one, s)
}"""
INITIALIZER_OUTPUT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] c, float[2] z) <float[2] c = {1.0, 2.0}> { z = Relu (x) }"""
STASHED_MEAN = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 3] x) => (float[2, 3] y, float[2, 1] z)
<float[3] s = {1.0, 1.0, 1.0}, float[3] b = {0.0, 0.0, 0.0}, float two = {2.0}> {
  y, m = LayerNormalization (x, s, b)
  z = Mul (m, two)
}"""
EARLY_CONSTANT = """
<ir_version: 4, opset_import: ["" : 8]>
g (float[2, 4] x) => (float[a, b] y) {
  s = Constant <value = int64[2] {4, 2}> ()
  y = Reshape (x, s)
}"""
RANGE_OF_DOUBLES = """
<ir_version: 10, opset_import: ["" : 21]>
g (double a) => (double[n] y) <double b = {3.0}, double c = {-1.0}> { y = Range (a, b, c) }"""
UNEQUAL_BRANCHES = """
<ir_version: 8, opset_import: ["" : 13]>
g (bool go) => (float[n] y) {
  y = If (go) <
    then_branch = t () => (float[1] a) { a = Constant <value = float[1] {1.0}> () },
    else_branch = e () => (float[2] b) { b = Constant <value = float[2] {1.0, 2.0}> () }>
}"""
NARROWED_SIZE = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[300, 4] x) => (int64[2] o) {
  s = Shape (x)
  b = Cast <to = 3> (s)
  i = Cast <to = 7> (b)
  y = ConstantOfShape (i)
  z = Relu (y)
  o = Shape (z)
}"""
SIZE_AS_BOOL = NARROWED_SIZE.replace("float[300, 4]", "float[N, 4]").replace("to = 3", "to = 9")
SQUARED_SIZE = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[70000, 70000] x) => (int64[2] o) {
  s = Shape (x)
  b = Cast <to = 6> (s)
  c = Mul (b, b)
  i = Cast <to = 7> (c)
  o = Identity (i)
}"""
SQUARED_SYMBOL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 0] x) => (int64[1] o) <int64[1] zero = {0}, int64[1] k = {70000}> {
  s = Shape (x)
  n = Gather <axis = 0> (s, zero)
  b = Cast <to = 6> (n)
  c = Mul (b, b)
  o = Cast <to = 7> (c)
}"""
HALVED_AS_FLOAT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[5] x) => (float[n] o) <float[1] two = {2.0}> {
  s = Shape (x)
  f = Cast <to = 1> (s)
  h = Div (f, two)
  d = Mul (h, two)
  i = Cast <to = 7> (d)
  o = ConstantOfShape (i)
}"""

JOINED_NOTHING = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[0, 5] z, float[2, 3] x) => (int64[2] o) { y = Concat <axis = 0> (z, x) o = Shape (y) }"""
LARGER_WINDOW = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 1, 4] x) => (int64[3] o) { y = MaxPool <kernel_shape = [5], strides = [2]> (x) o = Shape (y) }"""

COPIED_BEHIND_INFERRED = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 4] x) => (int64[2] o) <int64[2] shape = {-1, 0}> { y = Reshape (x, shape) o = Shape (y) }"""
PARTS_OF_FEW = """
<ir_version: 8, opset_import: ["" : 18]>
g (float[N, 2] x) => (int64[2] p, int64[2] q, int64[2] r) {
  a, b, c = Split <axis = 0, num_outputs = 3> (x)
  p = Shape (a)
  q = Shape (b)
  d = ConstantOfShape (q)
  e = Add (b, d)
  r = Shape (c)
}"""
EARLY_INTEGERS = """
<ir_version: 8, opset_import: ["" : 7]>
g (int64 x) => (int64 y, int64 z) <int64 a = {4}, int64 b = {3}> {
  y = Add (a, b)
  z = Mul (x, y)
}"""
HELD_CONSTANT = """
<ir_version: 8, opset_import: ["" : 16]>
g () => (optional(float[2]) o, bool y) <float[2] c = {1.0, 2.0}> {
  o = Optional (c)
  y = OptionalHasElement (o)
}"""


def written(text: str) -> bytes:
    proto = onnx.parser.parse_model(text)
    proto.domain = "test"
    return proto.SerializeToString()


def feeds_of(graph, size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(size)
    feeds = {}
    for value in graph.inputs:
        if value.initializer is None:
            shape = [d if isinstance(d, int) else size for d in value.type.shape.dims]
            feeds[value.name] = np.asarray(rng.integers(-3, 4, shape)).astype(value.type.element_type.numpy_dtype)
    return feeds


def errors(model) -> set[str]:
    return {str(p.message) for p in check_model(model) if p.severity == "error"}


CASES = {
    "simplify Slice 10": (SLICE_10, ["simplify"], (1, 2, 5)),
    "inline an unused output": (UNUSED_OUTPUT, ["convert", "--functions", "inline"], (1, 3)),
    "simplify a negated size": (NEGATED_SIZE, ["simplify"], (0, 1, 2, 5)),
    "convert a negated size": (NEGATED_SIZE, ["convert", "--opset", "11"], (1, 2, 5)),
    "infer a negated size": (NEGATED_SIZE, ["infer"], (1, 2, 5)),
    "fold a normalization": (CONSTANT_NORMALIZATION, ["simplify"], (1,)),
    "inline an If": (EQUAL_SIZES_OF_TWO_TYPES, ["simplify"], (1, 2, 5)),
    "simplify unsorted axes": (UNSORTED_AXES, ["simplify"], (1,)),
    "infer unsorted axes": (UNSORTED_AXES, ["infer"], (1,)),
    "simplify pooling with ceil_mode": (CEIL_MODE, ["simplify"], (1,)),
    "infer pooling with ceil_mode": (CEIL_MODE, ["infer"], (1,)),
    "infer a scalar's shape": (SHAPE_OF_SCALAR, ["infer"], (1,)),
    "simplify a scalar's shape": (SHAPE_OF_SCALAR, ["simplify"], (1,)),
    "simplify an initializer as output": (INITIALIZER_OUTPUT, ["simplify"], (1,)),
    "simplify a Constant of 8": (EARLY_CONSTANT, ["simplify"], (1,)),
    "convert a Constant of 8": (EARLY_CONSTANT, ["convert", "--opset", "13"], (1,)),
    "convert Range of doubles": (RANGE_OF_DOUBLES, ["convert", "--opset", "9"], (1,)),
    "simplify a size in int8": (NARROWED_SIZE, ["simplify"], (1,)),
    "simplify a size in bool": (SIZE_AS_BOOL, ["simplify"], (1, 2, 300)),
    "simplify a square in int32 of a symbol": (SQUARED_SYMBOL, ["simplify"], (1, 3, 70000)),
    "simplify a concatenation with nothing": (JOINED_NOTHING, ["simplify"], (1,)),
    "simplify a window larger than the input": (LARGER_WINDOW, ["simplify"], (1,)),
    "simplify a size copied behind an inferred one": (COPIED_BEHIND_INFERRED, ["simplify"], (0, 1, 5)),
    "infer a size copied behind an inferred one": (COPIED_BEHIND_INFERRED, ["infer"], (0, 1, 5)),
    "simplify parts of few elements": (PARTS_OF_FEW, ["simplify"], (0, 1, 2, 3, 4, 7)),
    "convert parts of an empty axis": (PARTS_OF_FEW.replace("N, 2", "0, 2"), ["convert", "--opset", "13"], (1,)),
    "simplify integers of 7 that are returned": (EARLY_INTEGERS, ["simplify"], (1,)),
    "simplify a constant in an optional": (HELD_CONSTANT, ["simplify"], (1,)),
    "simplify a size halved in floats": (HALVED_AS_FLOAT, ["simplify"], (1,)),
}


@pytest.mark.long
@pytest.mark.parametrize(("text", "command", "sizes"), CASES.values(), ids=CASES)
def test_what_is_written_computes_the_same(text, command, sizes, tmp_path):
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(written(text))
    assert main([*command, str(source), "-o", str(target)]) == 0
    before, after = load(source), load(target)
    for size in sizes:
        feeds = feeds_of(before.graph, size)
        expected, found = Session(before).run(feeds), Session(after).run(feeds)
        assert expected.ok, [str(f) for f in expected.failures]
        assert found.ok, [str(f) for f in found.failures]
        assert list(found.outputs) == list(expected.outputs)
        for name, array in expected.outputs.items():
            assert np.asarray(found.outputs[name]).dtype == np.asarray(array).dtype
            np.testing.assert_array_equal(found.outputs[name], array)
    assert errors(after) <= errors(before)
    if is_loaded(source.read_bytes()):
        assert is_loaded(target.read_bytes())


def inferred(text: str) -> dict[str, TensorType]:
    model = load(written(text))
    found = infer(model)
    return {value.name: kind for value, kind in found.types.items()}


def test_sizes_that_onnx_infers_wrongly_are_right():
    assert inferred(UNSORTED_AXES)["a"].shape.dims == (3, 4)
    assert inferred(CEIL_MODE)["y"].shape.dims == (1, 3, 2, 2)
    assert inferred(SLICE_10)["y"].shape.dims != ("M",)


def test_what_a_narrowing_cast_leaves_of_a_size_is_not_known():
    assert inferred(NARROWED_SIZE)["y"].shape.dims == (None, None)
    assert inferred(SIZE_AS_BOOL)["y"].shape.dims[0] != "N"


def test_int32_wraps_around_as_it_does_in_a_run(tmp_path):
    """The input has 5 billion elements, so nothing is run."""
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(written(SQUARED_SIZE))
    assert main(["simplify", str(source), "-o", str(target), "--check", "0"]) == 0
    (node,) = load(target).graph.nodes
    assert node.attributes["value"].value.numpy().tolist() == [70000**2 - 2**32] * 2


def test_an_output_that_is_an_initializer_is_among_the_results():
    result = Session(load(written(INITIALIZER_OUTPUT))).run({"x": np.ones(2, np.float32)})
    assert list(result.outputs) == ["c", "z"]
    np.testing.assert_array_equal(result.outputs["c"], np.array([1, 2], np.float32))


def test_the_mean_of_a_normalization_stays_float_in_bfloat16(tmp_path):
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(written(STASHED_MEAN))
    assert main(["convert", "--precision", "bfloat16", str(source), "-o", str(target)]) == 0
    after = load(target)
    assert errors(after) == set()
    mean = next(v for v in after.graph.values() if v.name == "m")
    assert infer(after).type_of(mean).element_type is ElementType.FLOAT
    result = Session(after).run({"x": np.array([[1, 2, 3], [4, 5, 6]], ElementType.BFLOAT16.numpy_dtype)})
    np.testing.assert_allclose(result.outputs["z"].astype(np.float32), [[4], [10]], rtol=0.02)


def test_integers_in_a_constant_before_version_9_are_a_warning(capsys, tmp_path):
    source = tmp_path / "in.onnx"
    source.write_bytes(written(EARLY_CONSTANT))
    assert main(["check", str(source)]) == 0
    assert "does not support at opset 8" in capsys.readouterr().out


def test_branches_that_must_be_equal_but_differ_are_refused(capsys, tmp_path):
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(written(UNEQUAL_BRANCHES))
    assert main(["convert", "--opset", "10", str(source), "-o", str(target)]) == 2
    assert "branches" in capsys.readouterr().err
    assert not Path(target).exists()


INTEGERS_IN_ERF = """
<ir_version: 8, opset_import: ["" : 10]>
g (int32[N] x) => (int32[N] y) { y = Erf (x) }"""


def test_types_that_a_newer_version_does_not_take_are_refused(capsys, tmp_path):
    """Version 9 of Erf takes all numbers, version 13 floating-point ones alone."""
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(written(INTEGERS_IN_ERF))
    assert main(["convert", "--opset", "15", str(source), "-o", str(target)]) == 2
    assert "does not accept int32" in capsys.readouterr().err
    assert not target.exists()
