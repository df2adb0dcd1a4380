"""Edits of sparse tensors: the same as on the dense tensor they stand for, without its zeros."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from onnx_workbench.model.edits import sparse_tensors, tensors
from onnx_workbench.model.edits.tensors import TensorLocation
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import InsertNode, SetAttribute
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor
from onnx_workbench.model.ir.types import ElementType, SparseTensorType
from tests.examples import examples
from tests.model import builders

mostly_zero = arrays(np.float32, (3, 4), elements=st.sampled_from([0.0, 0.0, 0.0, 1.5, -2.0]))


def pair(array, *, per_axis):
    """The same numbers dense and sparse, with linear indices or with one a dimension."""
    dense = ArrayTensor(array, name="s")
    made = sparse_tensors.to_sparse(dense)
    if not per_axis:
        return dense, made
    places = np.stack(np.unravel_index(made.indices.numpy(), array.shape), axis=1).astype(np.int64)
    return dense, SparseTensor(made.values, ArrayTensor(places), made.shape)


@given(mostly_zero, st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_an_edit_is_that_of_the_dense_tensor(array, per_axis):
    dense, sparse = pair(array, per_axis=per_axis)
    region = (slice(0, 2), 1)
    for change in (
        lambda t: tensors.fill(t, [region], "7"),
        lambda t: tensors.compute(t, "x*2 + 1", [region])[0],
        lambda t: tensors.paste(t, [["0", "3"]], lambda r, c: (r, c)),
    ):
        made = sparse_tensors.on_dense(sparse, change)
        assert np.array_equal(sparse_tensors.to_dense(made).numpy(), change(dense).numpy())
        assert np.count_nonzero(made.values.numpy()) == made.values.size
        assert made.indices.numpy().ndim == sparse.indices.numpy().ndim
    for shape in ((4, 3), (2, -1), (12,)):
        made = sparse_tensors.reshape(sparse, shape)
        assert np.array_equal(sparse_tensors.to_dense(made).numpy(), tensors.reshape(dense, shape).numpy())


def test_a_wrong_shape_is_refused_and_a_huge_one_takes_no_memory():
    huge = SparseTensor(ArrayTensor(np.ones(1, np.float32)), ArrayTensor(np.array([5])), (1 << 20, 1 << 20))
    made = sparse_tensors.reshape(huge, (1 << 30, -1))
    assert (made.shape, made.indices.numpy().tolist()) == ((1 << 30, 1 << 10), [5])
    for shape in ((3, 3), (-1, -1), (-2, 5)):
        with pytest.raises(ModelError, match=r"do not fit|Not a shape"):
            sparse_tensors.reshape(huge, shape)


def test_a_type_is_changed_with_what_is_lost():
    sparse = sparse_tensors.to_sparse(ArrayTensor(np.array([0, 1.5, 300], np.float32)))

    def cast(array, kind):
        return array.astype(kind.numpy_dtype)

    made, report = sparse_tensors.retype(sparse, ElementType.INT16, cast)
    assert made.values.numpy().tolist() == [1, 300]
    assert report.changed == 1
    with pytest.raises(ModelError, match="cannot be sparse"):
        sparse_tensors.retype(sparse, ElementType.STRING, cast)


def test_constants_turn_sparse_and_dense_through_a_file():
    document = builders.document()
    graph = document.model.graph
    array = np.array([0, 2, 0, 4], np.float32)
    node = Node("Constant", (), (Value("k"),), name="k")
    with document.edit("Add") as edit:
        edit.do(InsertNode(graph, node, graph.nodes.first))
        edit.do(SetAttribute(node, "value", Attribute("value", AttributeKind.TENSOR, ArrayTensor(array))))
    for place in (TensorLocation(node), TensorLocation(node, "value")):
        before = to_bytes(document.model)
        builders.one_edit(document, tensors.set_tensor_at, place, sparse_tensors.to_sparse(ArrayTensor(array)))
        assert list(node.attributes) == ["sparse_value"]
        again = builders.node(load(to_bytes(document.model)), "k").attributes["sparse_value"].value
        assert sparse_tensors.to_dense(again).numpy().tolist() == array.tolist()
        builders.one_edit(document, tensors.set_tensor_at, TensorLocation(node, "sparse_value"), ArrayTensor(array))
        assert list(node.attributes) == ["value"]
        document.undo()
        document.undo()
        assert to_bytes(document.model) == before


def test_a_sparse_initializer_keeps_the_type_of_a_tensor():
    document = builders.document()
    w = builders.value(document, "w")
    builders.one_edit(document, tensors.set_tensor_at, TensorLocation(w), sparse_tensors.to_sparse(w.initializer))
    again = builders.value(load(to_bytes(document.model)), "w")
    assert isinstance(again.initializer, SparseTensor)
    assert not isinstance(again.type, SparseTensorType)
    assert sparse_tensors.to_dense(again.initializer).numpy().tolist() == [1, 2, 3, 4]


def test_an_attribute_follows_the_kind_of_its_tensor():
    document = builders.document()
    node = builders.node(document, "first")
    dense = ArrayTensor(np.array([0, 1], np.float32))
    with document.edit("Add") as edit:
        edit.do(
            SetAttribute(node, "s", Attribute("s", AttributeKind.SPARSE_TENSOR, sparse_tensors.to_sparse(dense), "doc"))
        )
        edit.do(SetAttribute(node, "t", Attribute("t", AttributeKind.TENSORS, (dense,))))
        tensors.set_tensor_at(edit, TensorLocation(node, "s"), dense)
    assert (node.attributes["s"].kind, node.attributes["s"].doc_string) == (AttributeKind.TENSOR, "doc")
    with pytest.raises(ModelError, match="t holds tensors"), document.edit("Put") as edit:
        tensors.set_tensor_at(edit, TensorLocation(node, "t", 0), sparse_tensors.to_sparse(dense))


def test_entries_in_any_order_come_into_theirs():
    sparse = SparseTensor(ArrayTensor(np.array([1, 2], np.float32)), ArrayTensor(np.array([3, 0])), (2, 2))
    made = sparse_tensors.set_element(sparse, (0, 1), "9")
    assert made.indices.numpy().tolist() == [0, 1, 3]
    assert made.values.numpy().tolist() == [2, 9, 1]
