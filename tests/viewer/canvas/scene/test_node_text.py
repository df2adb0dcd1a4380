from __future__ import annotations

import numpy as np
import pytest

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.schemas import find
from onnx_workbench.viewer.canvas.scene import node_text
from tests.viewer.canvas.graphs import Graphs


def test_only_attributes_that_differ_from_their_default_have_a_row():
    node = Graphs().node("Conv", ["x", "w"], ["y"], group=1, strides=[2, 2], auto_pad="NOTSET")
    assert [(row.name, row.text) for row in node_text.attribute_rows(node, find("Conv", 18))] == [("strides", "[2, 2]")]
    assert len(node_text.attribute_rows(node, None)) == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (1e-5, "1e-05"),
        ("same", "same"),
        ("", '""'),
        ([1, 2], "[1, 2]"),
        ([], "[]"),
        ([0.5, 2.0], "[0.5, 2]"),
        ([0, 2**63 - 1, -(2**63)], "[0, max, min]"),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, 6, 7, … 100 values]"),
    ],
)
def test_attribute_values_read_as_people_write_them(value, text):
    assert node_text.attribute_text(make_attribute("a", value)) == text


def test_an_element_type_is_written_by_name():
    assert node_text.attribute_text(make_attribute("to", 7)) == "int64"
    assert node_text.attribute_text(make_attribute("to", 99)) == "type 99"


def test_a_reference_names_the_functions_attribute():
    assert node_text.attribute_text(Attribute("alpha", AttributeKind.FLOAT, reference="slope")) == "@slope"


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.float32(2.5), "2.5"),
        (np.array([1, -1], np.int64), "[1, -1]"),
        (np.array([2**63 - 1], np.int64), "[max]"),
        (np.array(True), "true"),
        (np.zeros((64, 3, 7, 7), np.float32), "64×3×7×7"),
        (np.zeros(64, np.float32), "64 values"),
        (np.zeros((0, 3), np.float32), "0×3"),
        (np.array(["a", "b\n"], object), '["a", "b\\n"]'),
    ],
)
def test_small_constants_are_written_out_and_others_by_shape(array, text):
    assert node_text.tensor_text(ArrayTensor(np.asarray(array))) == text


def test_a_constant_that_cannot_be_read_shows_its_shape():
    class Broken(Tensor):
        def numpy(self):
            raise ModelError("gone")

    assert node_text.tensor_text(Broken(ElementType.FLOAT, (2, 1))) == "2×1"
    assert node_text.tensor_text(Broken(ElementType.FLOAT, (2,) * 3)) == "2×2×2"


def test_large_constants_are_not_read():
    class InFile(Tensor):
        storage = "file"

        def numpy(self):
            pytest.fail("read")

    assert node_text.tensor_text(InFile(ElementType.FLOAT, (2,))) == "2 values"


def test_sparse_constants_show_their_dense_shape():
    values = ArrayTensor(np.ones(1, np.float32))
    assert node_text.tensor_text(SparseTensor(values, ArrayTensor(np.zeros(1, np.int64)), (5, 7))) == "sparse 5×7"


def test_many_rows_end_in_how_many_are_left():
    rows = [node_text.NodeRow(str(i), "", None) for i in range(30)]
    shown = node_text.limited(rows)
    assert len(shown) == node_text.MOST_ROWS
    assert shown[-1].text == f"{30 - node_text.MOST_ROWS + 1} more"
    assert node_text.limited(rows[: node_text.MOST_ROWS]) == tuple(rows[: node_text.MOST_ROWS])


def test_lists_that_say_what_leaving_them_out_would_have_no_row():
    node = Graphs().node("Conv", ["x", "w"], ["y"], strides=[1, 1], dilations=[1, 2], pads=[0, 0, 0, 0])
    assert [row.name for row in node_text.attribute_rows(node, find("Conv", 18))] == ["dilations"]
    old_pad = Graphs().node("Pad", ["x"], ["y"], pads=[0, 0])
    assert [row.name for row in node_text.attribute_rows(old_pad, find("Pad", 2))] == ["pads"]
