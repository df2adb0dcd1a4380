"""What the window does not let the user replace: data files of open models, and the files of other documents."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from PySide6.QtWidgets import QFileDialog

from onnx_workbench.viewer.files.save import SaveOptions
from tests.model.io.reader.test_ort_format import SMALL
from tests.model.io.saved_models import proto_of
from tests.viewer.opening import opened, rename
from tests.viewer.run.run_actions import run


@pytest.fixture
def path(tmp_path):
    """A model in m.onnx with its weights in w.bin."""
    values = np.arange(1000, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(values.tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(proto_of({"w": values}, external="w.bin").SerializeToString())
    return path


def titles(tab):
    return [message.title for message in tab.message_bar.messages]


def choose(monkeypatch, path):
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))


def test_save_as_does_not_replace_the_weights_of_the_model(window, qtbot, path, monkeypatch):
    tab = opened(window, qtbot, path)
    before = path.with_name("w.bin").read_bytes()
    choose(monkeypatch, path.with_name("w.bin"))
    window.files.saver.save_as(tab)
    qtbot.waitUntil(lambda: "w.bin holds weights of m.onnx" in titles(tab))
    assert path.with_name("w.bin").read_bytes() == before
    assert tab.path == path


def test_nor_those_of_another_document(window, qtbot, path):
    other = path.with_name("other.onnx")
    other.write_bytes(proto_of({"v": np.ones(3, np.float32)}).SerializeToString())
    opened(window, qtbot, path)
    tab = opened(window, qtbot, other)
    window.files.saver.save_with(tab, SaveOptions(path.with_name("w.bin")))
    qtbot.waitUntil(lambda: "w.bin holds weights of m.onnx" in titles(tab))


def test_nor_the_file_of_another_document_while_it_is_open(window, qtbot, path):
    other = path.with_name("other.onnx")
    other.write_bytes(proto_of({"v": np.ones(3, np.float32)}).SerializeToString())
    first, second = opened(window, qtbot, path), opened(window, qtbot, other)
    before = path.read_bytes()
    window.files.saver.save_with(second, SaveOptions(path))
    qtbot.waitUntil(lambda: "m.onnx is open" in titles(second))
    assert path.read_bytes() == before
    window.files.forget(first)
    window.files.saver.save_with(second, SaveOptions(path))
    qtbot.waitUntil(lambda: second.path == path)
    assert path.read_bytes() != before


@pytest.mark.parametrize(("name", "said"), [("m.onnx", "name for a model"), ("w.bin", "holds weights")])
def test_exports_replace_neither_models_nor_their_weights(window, qtbot, path, monkeypatch, name, said):
    tab = opened(window, qtbot, path)
    rename(tab, "edited")
    before = path.with_name(name).read_bytes()
    choose(monkeypatch, path.with_name(name))
    window.actions_binding.run("edit.export_script")
    assert any(said in title for title in titles(tab))
    assert path.with_name(name).read_bytes() == before


_EXPORTS = {
    "edit.export_script": ".jsonl", "file.export": ".svg", "file.export_view": ".png", "file.export_selection": ".pdf",
    "file.export_page": ".html", "run.save": ".npz",
}  # fmt: skip


@pytest.mark.parametrize(("action", "suffix"), _EXPORTS.items())
def test_no_export_replaces_what_another_document_reads_from(window, qtbot, tmp_path, monkeypatch, action, suffix):
    values = np.arange(1000, dtype=np.float32)
    data = tmp_path / f"data{suffix}"
    data.write_bytes(values.tobytes())
    path, other = tmp_path / "m.onnx", tmp_path / "other.onnx"
    path.write_bytes(proto_of({"w": values}, external=data.name).SerializeToString())
    other.write_bytes(proto_of({"v": np.ones(3, np.float32)}).SerializeToString())
    opened(window, qtbot, path)
    tab = opened(window, qtbot, other)
    qtbot.waitUntil(lambda: tab.view.scene is not None)
    rename(tab, "edited")
    if action == "run.save":
        run(qtbot, tab.workspace)
    tab.workspace.navigation.reveal_all([next(iter(tab.workspace.model.graph.nodes))])
    choose(monkeypatch, data)
    window.actions_binding.run(action)
    assert f"{data.name} holds weights of m.onnx" in titles(tab)
    assert data.read_bytes() == values.tobytes()


def test_a_model_in_ort_format_is_saved_as_onnx(window, qtbot, tmp_path, monkeypatch):
    path = tmp_path / "small.ort"
    shutil.copy(SMALL, path)
    before = path.read_bytes()
    tab = opened(window, qtbot, path)
    rename(tab, "renamed")
    asked = []
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *given: (asked.append(given[2]) or given[2], ""))
    window.files.saver.save(tab)
    qtbot.waitUntil(lambda: tab.path == tmp_path / "small.onnx" and not tab.workspace.document.modified)
    assert asked == [str(tmp_path / "small.onnx")]
    assert path.read_bytes() == before
