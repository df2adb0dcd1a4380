"""A model with weights of 251 MB: the window's process holds none of them, whatever is done with it."""

import json
import tracemalloc
from contextlib import contextmanager

import pytest
from onnx import TensorProto, helper
from PySide6.QtWidgets import QFileDialog

from onnx_workbench.model.budget import WINDOW_TENSOR
from onnx_workbench.model.io.tensors.weight_files import open_weights
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.viewer.dialogs.convert import ConvertDialog
from onnx_workbench.viewer.dialogs.import_weights import ImportWeightsDialog
from onnx_workbench.viewer.dialogs.simplify import SimplifyDialog
from onnx_workbench.viewer.panel_list import PANELS
from tests.viewer.activity import activity_in
from tests.viewer.opening import opened, run, titles
from tests.viewer.tensor_view.tensor_actions import panel_of

ROWS, COLUMNS = 5120, 12288


@pytest.fixture(autouse=True)
def traced():
    """Python and numpy tell what they allocate."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@contextmanager
def bounded(qtbot, window):
    """What the block does, and what that starts, takes no memory of the size of a weight."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    yield
    qtbot.waitUntil(lambda: not activity_in(window) and not window.files.pending)
    assert tracemalloc.get_traced_memory()[1] - before < WINDOW_TENSOR


@pytest.fixture
def path(tmp_path):
    """Two equal weights as data files, and one that a Transpose could be folded into."""
    info = helper.make_tensor_value_info
    weights = []
    for name in ("a", "b", "c"):
        weight = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=(ROWS, COLUMNS), data_location=1)
        weight.external_data.add(key="location", value="weights.data")
        weights.append(weight)
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["xa"], "first"),
        helper.make_node("Gemm", ["x", "b"], ["xb"], "second"),
        helper.make_node("BatchNormalization", ["xb", "one", "one", "one", "one"], ["n"], "norm"),
        helper.make_node("Add", ["xa", "n"], ["sum"], "sum"),
        helper.make_node("Transpose", ["c"], ["ct"], "turned", perm=[1, 0]),
        helper.make_node("MatMul", ["sum", "ct"], ["y"], "third"),
    ]
    one = helper.make_tensor("one", TensorProto.FLOAT, [COLUMNS], [1.0] * COLUMNS)
    inputs, outputs = [info("x", TensorProto.FLOAT, [1, ROWS])], [info("y", TensorProto.FLOAT, [1, ROWS])]
    graph = helper.make_graph(nodes, "large", inputs, outputs, [*weights, one])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    for folder in (tmp_path, tmp_path / "other"):
        folder.mkdir(exist_ok=True)
        (folder / "large.onnx").write_bytes(model.SerializeToString())
        with (folder / "weights.data").open("wb") as data:
            data.truncate(4 * ROWS * COLUMNS)  # zeros that take no room
    return tmp_path / "large.onnx"


@pytest.fixture
def tab(window, qtbot, path, write_model):
    opened(window, qtbot, write_model())  # imports what is needed for that
    with bounded(qtbot, window):
        return opened(window, qtbot, path)


def initializer(tab, name):
    return next(value for value in tab.workspace.graph.initializers if value.name == name)


@pytest.mark.slow
def test_looking_at_a_weight_with_every_panel_open(window, qtbot, tab):
    for panel in PANELS:
        with bounded(qtbot, window):
            window.docks.open(panel.id)
            tab.workspace.navigation.reveal_all([initializer(tab, "a")])
    with bounded(qtbot, window):
        tab.workspace.navigation.reveal_all([next(iter(tab.workspace.graph.nodes))])


@pytest.mark.long
def test_simplifying(window, qtbot, tab):
    with bounded(qtbot, window):
        dialog = SimplifyDialog(tab.workspace, window)
        dialog.show()
        qtbot.waitUntil(dialog.ok.isEnabled)
        dialog.ok.click()
        qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report)
    assert initializer(tab, "a").uses
    assert "b" not in {value.name for value in tab.workspace.graph.initializers}, "it is equal to a"
    dialog.close()
    with bounded(qtbot, window):
        run(window, "edit.undo")


@pytest.mark.long
@pytest.mark.parametrize("precision", ["float16"])
def test_converting_and_saving(window, qtbot, tab, tmp_path, monkeypatch, precision):
    with bounded(qtbot, window):
        dialog = ConvertDialog(tab.workspace, window)
        dialog.show()
        dialog.precision.setCurrentText(precision)
        qtbot.waitUntil(dialog.ok.isEnabled)
        dialog.ok.click()
        qtbot.waitUntil(lambda: dialog.ok.text() == "Close")
    dialog.close()
    weight = initializer(tab, "a").initializer
    assert weight.nbytes == 2 * ROWS * COLUMNS
    with bounded(qtbot, window):
        window.docks.open("tensor")
        tab.workspace.navigation.reveal_all([initializer(tab, "a")])
    target = tmp_path / "saved.onnx"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(target), ""))
    with bounded(qtbot, window):
        run(window, "file.save_as")
        qtbot.waitUntil(target.exists)
    assert target.stat().st_size + sum(f.stat().st_size for f in tmp_path.glob("saved*.data")) > 3 * weight.nbytes


#: Edits of the weight a in the tensor view.
EDITS = {
    "set": lambda editing: editing.set_element((1, 2), "9"),
    "fill": lambda editing: editing.fill([(slice(0, 4000), 3)], "9"),
    "compute": lambda editing: editing.compute([], "x + i - mean(x)"),
    "reshape": lambda editing: editing.reshape(f"{COLUMNS}×{ROWS}"),
    "retype": lambda editing: editing.retype(ElementType.FLOAT16, lambda _text, resume: resume()),
    "store": lambda editing: editing.store(external=False),
    "sparse": lambda editing: editing.make_sparse(),
}


@pytest.fixture
def pane(window, qtbot, tab):
    """The tensor view, with the weight a."""
    with bounded(qtbot, window):
        return panel_of(qtbot, window, initializer(tab, "a")).pane


@pytest.mark.slow
@pytest.mark.parametrize("name", EDITS)
def test_editing_and_saving(window, qtbot, tab, pane, tmp_path, monkeypatch, name):
    document = tab.workspace.document
    with bounded(qtbot, window):
        EDITS[name](pane.editing)
        qtbot.waitUntil(lambda: document.undo_title)
    with bounded(qtbot, window):
        tab.workspace.navigation.reveal_all([initializer(tab, "b")])
        tab.workspace.navigation.reveal_all([initializer(tab, "a")])
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "saved.onnx"), ""))
    with bounded(qtbot, window):
        run(window, "file.save_as")
        qtbot.waitUntil((tmp_path / "saved.onnx").exists)
    with bounded(qtbot, window):
        run(window, "edit.undo")


@pytest.mark.slow
def test_an_edit_that_the_worker_gets(window, qtbot, tab, pane):
    with bounded(qtbot, window):
        EDITS["set"](pane.editing)
        qtbot.waitUntil(lambda: tab.workspace.document.undo_title)
    with bounded(qtbot, window), qtbot.waitSignal(tab.workspace.results.run_finished):
        run(window, "run.run")


@pytest.mark.slow
def test_exporting_and_importing(window, qtbot, tab, pane, tmp_path):
    document = tab.workspace.document
    for suffix in (".npy", ".raw", ".pb"):
        path = tmp_path / f"a{suffix}"
        with bounded(qtbot, window):
            pane.editing.export(pane.subject.tensor(), path, pane.subject.target.location)
            qtbot.waitUntil(path.exists)
    with bounded(qtbot, window):
        pane.editing.export(pane.subject.tensor(), tmp_path / "a.png", pane.subject.target.location)
        qtbot.waitUntil(lambda: "The picture is too large" in titles(tab))
    assert not (tmp_path / "a.png").exists()
    with (tmp_path / "a.raw").open("r+b") as file:
        file.write(b"")
    for suffix in (".npy", ".pb", ".raw"):
        with bounded(qtbot, window):
            pane.editing.import_file(tmp_path / f"a{suffix}", "", lambda _text, resume: resume())
    assert document.undo_title == "Import a.raw into a", "the others have the values that are there"


@pytest.mark.slow
def test_importing_weights(window, qtbot, tab, tmp_path):
    nbytes = 4 * ROWS * COLUMNS
    head = {
        "a": {"dtype": "F32", "shape": [ROWS, COLUMNS], "data_offsets": [0, nbytes]},
        "b": {"dtype": "F32", "shape": [COLUMNS, ROWS], "data_offsets": [0, nbytes]},
        "c": {"dtype": "F16", "shape": [ROWS, COLUMNS], "data_offsets": [0, nbytes // 2]},
    }
    text = json.dumps(head).encode()
    path = tmp_path / "new.safetensors"
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + nbytes)
    with bounded(qtbot, window):
        dialog = ImportWeightsDialog(tab.workspace, open_weights(path), window)
        dialog.show()
        qtbot.waitUntil(lambda: len(dialog.model.differences) == 3)
    assert set(dialog.model.differences.values()) == {0.0}
    with bounded(qtbot, window):
        dialog.ok.click()
        qtbot.waitUntil(lambda: tab.workspace.document.undo_title)


@pytest.mark.slow
def test_comparing_with_another_file(window, qtbot, tab, path):
    with bounded(qtbot, window):
        other = opened(window, qtbot, path.parent / "other" / path.name)
        window.area.compare(other, tab)
