"""New constants from text."""

import numpy as np
import pytest

from onnx_workbench.model.checks import check_model
from onnx_workbench.model.edits import interface
from onnx_workbench.model.edits.constants import (
    parse_constant,
    parse_literal,
    reads_as_constant,
    reads_as_literal,
    set_default_values,
)
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.types import ElementType as E
from tests.model import builders
from tests.model.snapshots import on_rollback


@pytest.mark.parametrize(
    ("text", "name", "kind", "values"),
    [
        ("bias: float[3]", "bias", E.FLOAT, [0, 0, 0]),
        ("axes = 0, 2", "axes", E.INT64, [0, 2]),
        ("eps = 1e-5", "eps", E.FLOAT, np.float32(1e-5)),
        ("n = [7]", "n", E.INT64, [7]),
        ("s: float16[2,2] = 0.5", "s", E.FLOAT16, [[0.5, 0.5], [0.5, 0.5]]),
        ("m: int8[2,2] = 1, 2, 3, 4", "m", E.INT8, [[1, 2], [3, 4]]),
        ("flags: bool = true, false", "flags", E.BOOL, [True, False]),
        ("scalar: double = 2", "scalar", E.DOUBLE, 2.0),
        ('label = "cat"', "label", E.STRING, "cat"),
        ("empty: string[0]", "empty", E.STRING, []),
        ("nib: int4[2] = -8", "nib", E.INT4, [-8, -8]),
        ('words: string[2] = "a, b", c', "words", E.STRING, ["a, b", "c"]),
        ("deep: int8[2,2] = [[1, 2], [3, 4]]", "deep", E.INT8, [[1, 2], [3, 4]]),
        ("none: float[0,5]", "none", E.FLOAT, []),
    ],
)
def test_what_is_written(text, name, kind, values):
    found, tensor = parse_constant(text)
    assert (found, tensor.element_type) == (name, kind)
    assert tensor.numpy().tolist() == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bias", "needs a name"),
        (": float[3]", "needs a name"),
        ("b: float[N]", "leaves dimensions open"),
        ("b: seq(float)", "not a tensor type"),
        ("b: float[2] = 1, 2, 3", "3 values for 2 elements"),
        ("b: int8[2] = 200", "200"),
        ("b: float[1000000,1000000]", "too large"),
        ("b: float[0,9000000000000000000,9000000000000000000]", "too large"),
        ("b: float[" + "1," * 70 + "1]", "too large"),
        ("b: undefined[2]", "not a tensor type"),
        ("b = [[1, 2], [3, 4]]", "need a type"),
    ],
)
def test_what_is_refused(text, said):
    with pytest.raises(ModelError) as refused:
        parse_constant(text)
    assert said in refused.value.title


@pytest.mark.parametrize("text", ["w: float[3,3]", "w:float[3] = 1", "axes=1", "a/b:0 = 2", "x : int8[2]"])
def test_what_reads_as_a_constant(text):
    assert reads_as_constant(text)


@pytest.mark.parametrize(
    ("text", "kinds", "kind", "values"),
    [
        ("[1,-1]", (E.INT64, E.FLOAT), E.INT64, [1, -1]),
        ("0.5", (E.INT64, E.FLOAT), E.FLOAT, 0.5),
        ("3", (E.FLOAT16,), E.FLOAT16, 3),
        ("-1.", (E.DOUBLE,), E.DOUBLE, -1),
        ("[[1, 2], [3, 4]]", (E.FLOAT,), E.FLOAT, [[1, 2], [3, 4]]),
        ("[-1, 300]", (E.UINT8, E.INT32), E.INT32, [-1, 300]),
        ("[true, false]", (E.INT64, E.BOOL), E.BOOL, [True, False]),
        ("[]", (E.INT64,), E.INT64, []),
    ],
)
def test_numbers_and_lists_become_tensors_of_a_type_that_holds_them(text, kinds, kind, values):
    tensor = parse_literal(text, kinds)
    assert reads_as_literal(text)
    assert (tensor.element_type, tensor.numpy().tolist()) == (kind, values)


@pytest.mark.parametrize(
    "text", ["[1, 2", "[[1], [2, 3]]", "[1, x]", "0.5", "[" * 500, "99999999999999999999", '["a"]']
)
def test_what_is_no_list_of_numbers_is_refused(text):
    with pytest.raises(ModelError):
        parse_literal(text, (E.INT64,))


@pytest.mark.parametrize("text", ["", "x", "conv:0", "a/b.weight", "= 3", "name =", ":float"])
def test_what_reads_as_a_name(text):
    assert not reads_as_constant(text)


@pytest.mark.parametrize(
    ("text", "type_", "values"),
    [
        ("1, 2, 3, 4", "float[4]", [1, 2, 3, 4]),
        ("0.5", "float[4]", [0.5] * 4),
        ("", "float[4]", [0] * 4),
        ("float[2] = 1", "float[2]", [1, 1]),
        ("int64 = 7", "int64[]", 7),
    ],
)
def test_an_input_is_given_values(text, type_, values):
    document = builders.document(builders.BRANCHES)
    x = builders.value(document, "x")
    with on_rollback(document):
        builders.one_edit(document, set_default_values, x, text)
        assert (str(x.type), x.initializer.numpy().tolist(), x.is_input) == (type_, values, True)
        with document.edit("Constant") as edit:
            interface.input_to_initializer_only(edit, document.model.graph, x)
        assert not x.is_input
        assert load(to_bytes(document.model)).graph.initializers[-1].name == "x"


def test_an_input_becomes_a_constant_node_in_old_versions():
    document = builders.document("""<ir_version: 3, opset_import: ["" : 8]>
        g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Mul (x, w) }""")
    with on_rollback(document):
        with document.edit("Constant") as edit:
            interface.input_to_initializer_only(edit, document.model.graph, builders.value(document, "w"))
        assert [value.name for value in document.model.graph.inputs] == ["x"]
        assert [node.op_type for node in document.model.graph.nodes] == ["Constant", "Mul"]
        assert [p.rule for p in check_model(document.model) if p.severity == "error"] == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x", "1, 2", "leaves dimensions open"),
        ("x", "float[1,4] = 1, 2", "2 values for 4 elements"),
        ("x", "float[1,4] = cat", "cat"),
        ("a", "1", "cannot have a default"),
    ],
)
def test_a_default_that_does_not_fit_is_refused(name, text, said):
    document = builders.document()
    with pytest.raises(ModelError) as refused, document.edit("Default") as edit:
        set_default_values(edit, builders.value(document, name), text)
    assert said in refused.value.title
    assert not document.modified


def test_inputs_of_bodies_and_functions_have_no_default():
    document = builders.document(builders.BRANCHES)
    with pytest.raises(ModelError, match="cannot have a default"), document.edit("Default") as edit:
        set_default_values(edit, document.model.functions[0].body.inputs[0], "1")
