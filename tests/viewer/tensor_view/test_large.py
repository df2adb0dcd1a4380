"""Tensors of which only what is looked at is read."""

import tracemalloc
from dataclasses import replace

import numpy as np
import onnx
import pytest

from onnx_workbench.model.budget import WINDOW_TENSOR
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.progress import SILENT
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tensor_view.pictures import PictureRequest, heatmap, image, series
from onnx_workbench.viewer.tensor_view.readers import TensorReader, first_slice
from tests.viewer.tensor_view.tensor_actions import facts, opened


@pytest.mark.long
def test_a_tensor_of_a_hundred_million_elements_is_read_in_parts(qtbot, tmp_path):
    count = 100_000_000
    with (tmp_path / "w.data").open("wb") as file:
        file.truncate(count * 4)
    proto = onnx.TensorProto(name="w", data_type=1, dims=[10_000, 10_000], data_location=1)
    proto.external_data.add(key="location", value="w.data")
    graph = onnx.helper.make_graph([], "g", [], [], [proto])
    (tmp_path / "m.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    workspace = Workspace(Document(load(tmp_path / "m.onnx")), title="large")
    panel = opened(qtbot, workspace)
    workspace.selection.set([workspace.model.graph.initializers[0]])
    qtbot.waitUntil(lambda: panel.pane.table.cells.index(0, 0).data() == "0")
    assert panel.pane.reader._array is None
    panel.pane.choose_view("Heat map")
    qtbot.waitUntil(lambda: panel.pane.stack.currentWidget() is panel.pane.picture)
    assert "sampled" in panel.pane.picture.picture.note
    qtbot.waitUntil(lambda: "zeros" in facts(panel))
    assert facts(panel)["distinct"] == "at least 1"
    assert panel.pane.reader._array is None
    workspace.close()


def test_ranges_of_a_file_give_what_the_whole_gives(tmp_path, monkeypatch):
    array = np.arange(3 * 5 * 7, dtype=np.float32).reshape(3, 5, 7)
    (tmp_path / "w.data").write_bytes(array.tobytes())
    proto = onnx.TensorProto(name="w", data_type=1, dims=array.shape, data_location=1)
    proto.external_data.add(key="location", value="w.data")
    graph = onnx.helper.make_graph([], "g", [], [], [proto])
    (tmp_path / "m.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    monkeypatch.setattr("onnx_workbench.viewer.tensor_view.readers.KEPT_BYTES", 16)
    reader = TensorReader(load(tmp_path / "m.onnx").graph.initializers[0].initializer)
    which = first_slice(array.shape).through((2, 0, 0))
    assert reader.plane(which, range(0, 5, 2), range(1, 7, 3)).tolist() == array[2, 0:5:2, 1:7:3].tolist()
    assert reader.flat(10, 20).tolist() == array.reshape(-1)[10:20].tolist()
    assert not reader.instant


@pytest.mark.long
@pytest.mark.parametrize("element_type", [onnx.TensorProto.FLOAT16])
@pytest.mark.parametrize("shape", [(2, 1 << 23)])
def test_no_view_holds_more_of_a_large_file_than_it_shows(tmp_path, monkeypatch, element_type, shape):
    monkeypatch.setattr("onnx_workbench.viewer.tensor_view.readers.KEPT_BYTES", 1 << 20)
    proto = onnx.TensorProto(name="w", data_type=element_type, dims=shape, data_location=1)
    proto.external_data.add(key="location", value="w.data")
    graph = onnx.helper.make_graph([], "g", [], [], [proto])
    (tmp_path / "m.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    with (tmp_path / "w.data").open("wb") as file:
        file.truncate(1 << 28)
    reader = TensorReader(load(tmp_path / "m.onnx").graph.initializers[0].initializer)
    which = first_slice(shape)
    turned = replace(which, rows=which.columns, columns=which.rows)
    drawings = [
        lambda plane: heatmap(reader, plane, PictureRequest()),
        lambda plane: image(reader, plane, PictureRequest()),
        lambda plane: series(reader, plane, SILENT),
    ]
    tracemalloc.start()
    try:
        for draw in drawings:
            for plane in (which, turned):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                draw(plane)
                assert tracemalloc.get_traced_memory()[1] - before < WINDOW_TENSOR
    finally:
        tracemalloc.stop()
