"""Data files that a model no longer names: reported, moved to the trash when asked, and never while they are named."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from onnx_workbench.model.history.steps import SetInitializer
from onnx_workbench.model.ir.tensors import ArrayTensor


@pytest.fixture
def tab(window, qtbot, tmp_path):
    """A model with a weight in a file beside it, open."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [64]) for name in "xy")
    weight = numpy_helper.from_array(np.arange(64, dtype=np.float32), "w")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    path = tmp_path / "net.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
        path,
        save_as_external_data=True,
        location="net.bin",
        size_threshold=0,
    )
    with qtbot.waitSignal(window.files.opened):
        window.files.open([path])
    return window.tab


@pytest.fixture
def save(window, qtbot, tab):
    """Save and wait until that is done."""

    def save():
        window.files.saver.save(tab)
        qtbot.waitUntil(lambda: not window.files.saving and not tab.modified)

    return save


def double(tab):
    value = tab.workspace.graph.initializers[0]
    old = value.initializer
    with tab.workspace.document.edit("Double") as edit:
        edit.do(SetInitializer(tab.workspace.graph, value, ArrayTensor(old.numpy() * 2, source=old.source)))


def data_files(tab):
    return sorted(path.name for path in tab.path.parent.glob("net*") if path.suffix in (".data", ".bin"))


def offers(tab):
    return [message for message in tab.message_bar.messages if message.choices]


def press(qtbot, tab, text):
    (button,) = [b for b in tab.message_bar.findChildren(QPushButton) if b.text() == text and b.isVisible()]
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


@pytest.mark.long
def test_what_an_edit_taken_back_left_goes_to_the_trash(qtbot, tab, save, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    before = tab.path.read_bytes()
    double(tab)
    save()
    assert len(data_files(tab)) == 2
    assert not offers(tab)
    tab.workspace.document.undo()
    save()
    assert tab.path.read_bytes() == before
    (offer,) = offers(tab)
    (left,) = set(data_files(tab)) - {"net.bin"}
    assert left in offer.detail
    press(qtbot, tab, "Move to trash")
    assert data_files(tab) == ["net.bin"]
    assert not offers(tab)
    tab.workspace.document.redo()
    save()
    assert len(data_files(tab)) == 2
    assert np.array_equal(numpy_helper.to_array(onnx.load(tab.path).graph.initializer[0]), np.arange(64) * 2)


@pytest.mark.long
def test_nothing_is_offered_any_more_when_it_is_used_again(tab, save):
    double(tab)
    save()
    files = data_files(tab)
    tab.workspace.document.undo()
    save()
    assert offers(tab)
    tab.workspace.document.redo()
    save()
    assert not offers(tab)
    assert data_files(tab) == files, "the values are there already"
