"""What the inspector says of tensors: facts, first values, statistics and histogram."""

import numpy as np
import pytest

from onnx_workbench.model.edits.nodes import add_node
from onnx_workbench.model.edits.sparse_tensors import to_sparse
from onnx_workbench.model.io.tensors.proto_tensor import storage_mark
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor
from onnx_workbench.model.progress import SILENT, Cancelled, Progress
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.inspector.tensors import first_values, spread, statistics_rows, tensor_text, tensor_texts
from onnx_workbench.viewer.style.labels import storage_text
from tests.viewer.inspector.inspector_actions import conv_workspace, row, shown


def test_statistics_are_said_of_the_finite_values():
    found = spread(ArrayTensor(np.array([np.nan, np.inf, -np.inf, 0, 1, 3], np.float32)), SILENT)
    rows = {row.key: row for row in statistics_rows(found)}
    assert rows["range"].text == "0 … 3"
    assert (rows["zeros"].text, rows["zeros"].note) == ("1", "16.7%")
    assert rows["odd"].text == "1 NaN, 2 infinite"
    assert sum(rows["histogram 0"].bars) == 3


def test_constant_and_nonfinite_tensors_have_no_histogram():
    nothing = statistics_rows(spread(ArrayTensor(np.full(3, np.nan, np.float32)), SILENT))
    assert [row.key for row in nothing] == ["zeros", "odd"]
    equal = statistics_rows(spread(ArrayTensor(np.ones(3, np.float32)), SILENT))
    assert [row.key for row in equal] == ["range", "mean", "zeros"]


def test_it_stops_when_asked():
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        spread(ArrayTensor(np.ones(10, np.float32)), progress)


def test_first_values_of_every_kind():
    assert first_values(ArrayTensor(np.array([True, False]))) == "True, False"
    assert first_values(ArrayTensor(np.array(["a\n", "b", "\udcff"], object))) == r'"a\n", "b", "\xff"'
    assert first_values(ArrayTensor(np.array([1 + 2j], np.complex64))) == "1+2j"
    assert first_values(ArrayTensor(np.arange(100))).endswith("23 …")
    assert tensor_text(ArrayTensor(np.zeros((2, 3), np.int8))) == "int8 2×3 · 6 B"


def test_where_values_go_from_the_next_save_on_is_said():
    values = np.ones(2, np.float32)
    assert storage_text(ArrayTensor(values, source=storage_mark(external=False))) == "in memory"
    assert storage_text(ArrayTensor(values, source=storage_mark(external=True))) == "in memory, saved in a data file"


def test_what_a_tensor_says_of_itself_is_shown_as_plain_text(qtbot):
    workspace, *_ = conv_workspace()
    tensor = ArrayTensor(np.ones(2), doc_string="<b>made</b>\nby hand", metadata={"origin": "layer\u202e3"})
    (texts,) = tensor_texts(workspace, tensor)
    assert texts.text == display("<b>made</b>\nby hand · origin: layer\u202e3")
    assert [action.title for action in texts.actions] == ["Edit Message…"]
    assert tensor_texts(workspace, ArrayTensor(np.ones(2))) == []


def test_the_tensors_of_a_sparse_constant_have_texts_of_their_own(qtbot):
    workspace, *_ = conv_workspace()
    with workspace.document.edit("Add") as edit:
        sparse = to_sparse(ArrayTensor(np.array([0, 2, 0], np.float32)))
        sparse = SparseTensor(sparse.values, sparse.indices.with_texts(doc_string="places"), sparse.shape)
        node = add_node(edit, workspace.model.graph, "Constant", attributes={"sparse_value": sparse})
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    assert row(panel, "attributes", "sparse_value", "Metadata of indices").text == "places"
